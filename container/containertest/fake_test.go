package containertest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
)

func specs() func() container.CreateSpec {
	n := 0
	return func() container.CreateSpec {
		n++
		return container.CreateSpec{
			Name:     fmt.Sprintf("fake-%d", n),
			CTID:     container.CTID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n)),
			Template: "busybox",
		}
	}
}

func TestFake(t *testing.T) {
	containertest.Run(t, func(t *testing.T) containertest.Subject {
		fake := containertest.NewFake(container.KindLXC)
		t.Cleanup(func() {
			if err := fake.Close(); err != nil {
				t.Error(err)
			}
		})
		return containertest.Subject{Runtime: fake, Spec: specs(), Kill: func(t *testing.T, name string) {
			if err := fake.Enter(name, container.StateStopped); err != nil {
				t.Error(err)
			}
		}, Foreign: func(*testing.T) string {
			fake.Put(container.Info{Name: "theirs", State: container.StateStopped})
			return "theirs"
		}}
	})
}

func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	for _, applied := range []bool{false, true} {
		fake := containertest.NewFake(container.KindLXC)
		spec := specs()()
		if err := fake.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		fake.SetFault(func(op containertest.Op, name string) (bool, error) {
			if op == containertest.OpStart && name == spec.Name {
				return applied, broken
			}
			return false, nil
		})
		if _, err := fake.Start(t.Context(), spec.Name); !errors.Is(err, broken) {
			t.Errorf("applied %v: Start = %v, want the fault", applied, err)
		}
		info, err := fake.Inspect(t.Context(), spec.Name)
		if err != nil {
			t.Fatal(err)
		}
		if running := info.State == container.StateRunning; running != applied {
			t.Errorf("applied %v: state %v", applied, info.State)
		}
		fake.SetFault(nil)
		if _, err := fake.Start(t.Context(), spec.Name); err != nil {
			t.Errorf("without fault: %v", err)
		}
	}
}

func TestForeign(t *testing.T) {
	fake := containertest.NewFake(container.KindLXC)
	fake.Put(container.Info{Name: "theirs", State: container.StateStopped})
	if err := fake.Destroy(t.Context(), "theirs"); !errors.Is(err, container.ErrUnsupported) {
		t.Errorf("Destroy of a foreign container = %v, want ErrUnsupported", err)
	}
}

func TestMissReachesWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := containertest.NewFake(container.KindLXC)
		events := make(chan container.Event, 1)
		go fake.Watch(t.Context(), func() {}, func(e container.Event) { events <- e })
		synctest.Wait()
		fake.Miss()
		if e := <-events; e != (container.Event{}) {
			t.Errorf("got %+v, want an event without a name", e)
		}
	})
}
