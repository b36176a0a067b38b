//go:build integration && heavy

package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// TestRealUnkillable freezes a file system under a command that writes to it. As
// long as it is frozen the command's action runs, whatever is asked for, and says
// which process the kernel holds and since when; then it ends as it should.
func TestRealUnkillable(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("cancelled %t", cancelled), func(t *testing.T) {
			w := newWorld(t)
			w.addHost(t, "edge-01", false)
			d := w.newDisk(t, "mounted")
			gate, mark := w.fifo(t, "gate"), w.path("mark")
			id := strings.TrimSpace(w.must(t, "run", "edge-01", "--timeout", "1h", "--no-wait", "--",
				"sh", "-c", `read x <"$0"; echo $$ >"$1"; echo written >"$2"; echo over`, gate, mark, d.dir+"/file"))
			w.state(t, id, "RUNNING")
			if err := d.freeze(true); err != nil {
				t.Fatal(err)
			}
			defer d.freeze(false) // should the test fail
			release(t, gate)
			pid := strings.TrimSpace(fileUntil(t, mark, "the command is about to write", func(s string) bool { return strings.HasSuffix(s, "\n") }))
			if cancelled {
				w.must(t, "action", "cancel", id, "--no-wait")
			}
			said := "process " + pid + " is in state D since "
			var act api.Action
			for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(act.Detail, said); elapse(t, time.Second) {
				if act = w.action(t, id); time.Now().After(deadline) {
					t.Fatalf("it is %s, and it is said: %q", act.State, act.Detail)
				}
			}
			if act.State != "RUNNING" || act.Cancelling != cancelled {
				t.Errorf("while it cannot end it is %s", act.Shown)
			}
			for _, verb := range []string{"why", "action show"} {
				if out := w.must(t, append(strings.Fields(verb), id)...); !strings.Contains(out, said) {
					t.Errorf("hostler %s says\n%s", verb, out)
				}
			}
			if _, err := os.Stat("/proc/" + pid); err != nil {
				t.Error(err)
			}
			if err := d.freeze(false); err != nil {
				t.Fatal(err)
			}
			want := map[bool]string{false: "DONE ok", true: "CANCELLED cancelled"}[cancelled]
			if got := w.ended(t, id)[id]; got != want {
				t.Errorf("after the thaw it is %s, want %s", got, want)
			}
			if detail := w.action(t, id).Detail; strings.Contains(detail, "state D") {
				t.Errorf("it has ended, and it is said: %q", detail)
			}
			w.quiet(t)
		})
	}
}
