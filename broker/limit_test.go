package broker

import (
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	limit := Limit{Messages: 10, Bytes: 1000, Burst: 2 * time.Second, Flood: 3 * time.Second}
	now := time.Unix(1000, 0)
	count := func(m *meter, n, size int) (within, over, flood int) {
		for range n {
			switch m.take(now, size) {
			case withinLimit:
				within++
			case overLimit:
				over++
			case flooding:
				flood++
			}
		}
		return
	}
	check := func(what string, within, over, flood, w, o, f int) {
		t.Helper()
		if within != w || over != o || flood != f {
			t.Errorf("%s: %d within, %d over, %d flooding; want %d, %d, %d", what, within, over, flood, w, o, f)
		}
	}

	m := newMeter(limit, now)
	a, b, c := count(&m, 60, 1)
	check("at once: burst of 2 s, then 3 s of debt", a, b, c, 20, 30, 10)

	m = newMeter(limit, now)
	a, b, c = count(&m, 6, 1000) // a second's worth of bytes each
	check("bytes", a, b, c, 2, 3, 1)

	m = newMeter(limit, now)
	for range 1000 {
		now = now.Add(100 * time.Millisecond)
		if v := m.take(now, 1); v != withinLimit {
			t.Fatalf("at its rate: verdict %d", v)
		}
	}

	m = newMeter(limit, now)
	count(&m, 45, 1)
	if v := m.take(now.Add(2500*time.Millisecond), 1); v != overLimit {
		t.Errorf("debt half paid: verdict %d", v)
	}
	if v := m.take(now.Add(2800*time.Millisecond), 1); v != withinLimit {
		t.Errorf("debt paid: verdict %d", v)
	}
	now = now.Add(time.Hour)
	a, b, c = count(&m, 60, 1)
	check("silence earns one burst and no more", a, b, c, 20, 30, 10)
}
