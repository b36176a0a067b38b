package alerts_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/metrics"
)

func TestParse(t *testing.T) {
	rules, err := alerts.Parse("web ram=80% cpu=150%/5m:critical tasks=200/90s")
	want := []alerts.Rule{
		{Target: "web", Quantity: "ram", Threshold: 80, Window: time.Minute, Severity: alerts.Warning},
		{Target: "web", Quantity: "cpu", Threshold: 150, Window: 5 * time.Minute, Severity: alerts.Critical},
		{Target: "web", Quantity: "tasks", Threshold: 200, Window: 90 * time.Second, Severity: alerts.Warning},
	}
	if err != nil || !slices.Equal(rules, want) {
		t.Fatalf("%v, %v", rules, err)
	}
	for _, r := range rules {
		if again, err := alerts.Parse(r.String()); err != nil || len(again) != 1 || again[0] != r {
			t.Errorf("%s is read as %v, %v", r, again, err)
		}
	}
	for text, says := range map[string]string{
		"": "is no rule", "web": "is no rule", "web ram": "there is no threshold", "web rum=80%": `the quantity "rum" is unknown`,
		"web ram=80": "write 80%", "web tasks=80%": "tasks is a number", "web ram=0%": "not above 0", "web ram=101%": "at most 100", "web ram=x%": "not above 0",
		"web ram=NaN%": "not above 0", "web ram=80%/1s": "not between", "web ram=80%/1000h": "not between", "web ram=80%/x": "not between",
		"web ram=80%:bad": `severity "bad" is unknown`, "web ram=80% ram=90%": "there is another rule",
	} {
		if _, err := alerts.Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// judge feeds shares of memory of a container, and returns when an alert changes.
func feed(j *alerts.Judge, container string, shares ...float64) (changes []alerts.Change) {
	for _, s := range shares {
		changes = append(changes, j.Judge(sample(container, s))...)
	}
	return changes
}

func sample(container string, share float64) metrics.Sample {
	s := metrics.Sample{Span: metrics.Interval, Values: []metrics.Value{{Series: metrics.Series{Metric: metrics.Load1}, Mean: 1}}}
	if container != "" {
		s.Values = append(s.Values,
			metrics.Value{Series: metrics.Series{Container: container, Metric: metrics.Memory}, Mean: share},
			metrics.Value{Series: metrics.Series{Container: container, Metric: metrics.MemoryMax}, Mean: 100})
	}
	return s
}

func rules(t *testing.T, texts ...string) (all []alerts.Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := alerts.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r...)
	}
	return all
}

func TestJudge(t *testing.T) {
	const id = "measured.ram.warning/web/"
	j := alerts.New(rules(t, "web ram=80%/60s"), nil)
	if got := feed(j, "web", 90, 90, 90, 70, 90, 90, 90, 80, 81, 81); len(got) != 0 {
		t.Errorf("what is not above for a minute without a break raises %v", got)
	}
	got := feed(j, "web", 85, 85, 85, 85)
	if len(got) != 1 || got[0] != (alerts.Change{ID: id, Severity: alerts.Warning, Raised: true, Text: "memory of web is 85%, above 80% for 1m0s"}) {
		t.Fatalf("after a minute: %+v", got)
	}
	if got := feed(j, "web", 99, 75, 75, 75, 75, 75, 71, 71, 71, 73, 71, 71, 71); len(got) != 0 {
		t.Errorf("between clearing and raising, and below for less than a minute: %+v", got)
	}
	if got := feed(j, "web", 71); len(got) != 1 || got[0].Raised || got[0].ID != id || got[0].Text != "memory of web is 71% again, below 72% for 1m0s" {
		t.Errorf("after a minute below: %+v", got)
	}
	if got := feed(j, "web", 85, 85, 85, 85); len(got) != 1 || got[0].ID != id {
		t.Errorf("the same alert again: %+v", got)
	}
	if got := feed(j, "", 0); len(got) != 1 || got[0].Raised || got[0].ID != id {
		t.Errorf("when the container is gone: %+v", got)
	}
}

// TestGap: a sample after a gap, in which the host slept or could not measure, is one look
// after all the others: it neither raises nor clears an alert by itself.
func TestGap(t *testing.T) {
	j := alerts.New(rules(t, "web ram=80%/60s"), nil)
	after := func(gap time.Duration, share float64) []alerts.Change {
		s := sample("web", share)
		s.Span = gap
		return j.Judge(s)
	}
	if got := after(8*time.Hour, 90); len(got) != 0 {
		t.Errorf("one look after a night raises %+v", got)
	}
	if got := feed(j, "web", 90, 90); len(got) != 0 {
		t.Errorf("45 s of measuring raise %+v", got)
	}
	if got := feed(j, "web", 90); len(got) != 1 || !got[0].Raised {
		t.Fatalf("after a minute: %+v", got)
	}
	if got := after(8*time.Hour, 10); len(got) != 0 {
		t.Errorf("one look after a night clears %+v", got)
	}
	if got := feed(j, "web", 90, 90); len(got) != 0 {
		t.Errorf("still above: %+v", got)
	}
	if got := after(20*time.Second, 10); len(got) != 0 {
		t.Errorf("a sample that was late: %+v", got)
	}
	if got := feed(j, "web", 10, 10, 10); len(got) != 1 || got[0].Raised {
		t.Errorf("after a minute below: %+v", got)
	}
}

// TestUnmeasured: an alert about what is not measured any more, as of a container that was
// stopped or a file system that is not mounted, stays for a while and is cleared then.
func TestUnmeasured(t *testing.T) {
	j := alerts.New(rules(t, "web ram=80%/15s", "host disk=90%/15s"), nil)
	value := func(container string, m metrics.Metric, part string, v float64) metrics.Value {
		return metrics.Value{Series: metrics.Series{Container: container, Metric: m, Part: part}, Mean: v}
	}
	broken := value("web", metrics.Broken, "", 0) // a stopped container has this value, too
	measured := []metrics.Value{
		broken, value("web", metrics.Memory, "", 90), value("web", metrics.MemoryMax, "", 100), value("", metrics.Disk, "/srv", 95), value("", metrics.DiskMax, "/srv", 100),
	}
	look := func(values ...metrics.Value) []alerts.Change {
		return j.Judge(metrics.Sample{Span: metrics.Interval, Values: values})
	}
	if got := look(measured...); len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	const looks = int(alerts.KeptFor / metrics.Interval)
	missing := func() {
		t.Helper()
		for n := range looks - 1 {
			if got := look(broken); len(got) != 0 {
				t.Fatalf("look %d: %+v", n, got)
			}
		}
	}
	missing()
	if got := look(measured...); len(got) != 0 {
		t.Errorf("measured again: %+v", got)
	}
	missing()
	if got := look(broken); len(got) != 2 || got[0].Raised || got[1].Raised {
		t.Errorf("not measured for %s: %+v", alerts.KeptFor, got)
	}
	if got := look(measured...); len(got) != 2 || !got[0].Raised || !got[1].Raised {
		t.Errorf("raised again: %+v", got)
	}
}

func TestTargets(t *testing.T) {
	j := alerts.New(rules(t, "* ram=80%/15s", "host load=0.5/15s"), nil)
	got := feed(j, "web", 90)
	if len(got) != 2 || got[0].ID != "measured.ram.warning/web/" || got[1].ID != "measured.load.warning//" || got[1].Text != "load is 1, above 0.5 for 15s" {
		t.Errorf("%+v", got)
	}
	if got := feed(alerts.New(rules(t, "db ram=80%/15s", "web tasks=80/15s"), nil), "web", 90); len(got) != 0 {
		t.Errorf("rules of others raise %+v", got)
	}
}

// TestRestart: an alert that was raised before stays raised, without a second word, and
// ends as it should; one that no rule is for ends with the first sample.
func TestRestart(t *testing.T) {
	const id = "measured.ram.warning/web/"
	j := alerts.New(rules(t, "web ram=80%/30s"), []string{id, "measured.cpu.critical/web/", "container.broken/1"})
	if got := feed(j, "web", 90, 90, 90); len(got) != 1 || got[0].ID != "measured.cpu.critical/web/" || got[0].Raised || got[0].Severity != alerts.Critical {
		t.Errorf("%+v", got)
	}
	if got := feed(j, "web", 10, 10); len(got) != 1 || got[0].ID != id || got[0].Raised {
		t.Errorf("%+v", got)
	}
	if got := alerts.New(nil, nil).Judge(sample("web", 90)); got != nil {
		t.Errorf("without rules: %+v", got)
	}
}

// TestAlternates: of any values, each alert is raised and cleared in turns, never sooner
// than a window after the last word.
func TestAlternates(t *testing.T) {
	all := rules(t, "web ram=80%/60s ram=95%/30s:critical")
	rapid.Check(t, func(t *rapid.T) {
		j := alerts.New(all, nil)
		raised, since := make(map[string]bool), make(map[string]int)
		for n, share := range rapid.SliceOf(rapid.Float64Range(0, 100)).Draw(t, "shares") {
			for _, c := range j.Judge(sample("web", share)) {
				least := 4
				if c.Severity == alerts.Critical {
					least = 2
				}
				if c.Raised == raised[c.ID] || n+1-since[c.ID] < least {
					t.Fatalf("sample %d: %+v", n, c)
				}
				raised[c.ID], since[c.ID] = c.Raised, n+1
			}
		}
	})
}

// TestNeverFires: a rule about what a container does not have is refused, and the error says
// why, and what to use.
func TestNeverFires(t *testing.T) {
	for rule, says := range map[string]string{
		"inodes=80%": "a file system of the host", "load=4": "no load average of a container; for a container use psi-cpu", "temperature=80": "no container has a sensor of its own",
		"queue-age=5m": "is of a host", "degraded=yes": "is of a host", "spool-loss=0": "is of a host", "certificate=5d": "is of a host",
	} {
		for _, target := range []string{"web", "*"} {
			if _, err := alerts.Parse(target + " " + rule); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "write host as the target") {
				t.Errorf("%s %s: %v, want %q", target, rule, err, says)
			}
		}
		rules(t, "host "+rule)
	}
	rules(t, "* cpu=80% ram=80% swap=50% disk=80% tasks=100 psi-io=50% restarts=0 broken=yes backup-age=2d")
	for text, says := range map[string]string{
		"web broken=1": "write broken=yes", "web broken=no": "write broken=yes", "web broken=": "write broken=yes", "host degraded=1%": "write degraded=yes", "host broken=yes": "is of a container",
		"web restarts=-1": "between 0 and 10000", "host spool-loss=1%": "spool-loss is a number", "host spool-loss=x": "between 0 and 1000000000", "host load=0": "not above 0",
	} {
		if _, err := alerts.Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// TestEveryQuantityFires: what a rule may name of a host or of a container is measured there.
func TestEveryQuantityFires(t *testing.T) {
	for target, container := range map[string]string{"host": "", "*": "web"} {
		s := metrics.Sample{Span: metrics.Interval}
		for _, m := range metrics.Metrics() {
			if container == "" && m.OfHost || container != "" && m.OfContainer {
				s.Values = append(s.Values, metrics.Value{Series: metrics.Series{Container: container, Metric: m.Metric}, Mean: 1e5})
			}
		}
		taken := 0
		for _, quantity := range alerts.Quantities() {
			for _, threshold := range []string{"1%", "1", "300d", "1s", "yes"} { // a certificate ends too soon, and all else is too much
				all, err := alerts.Parse(target + " " + quantity + "=" + threshold + "/15s")
				if err != nil || threshold == "300d" && quantity != "certificate" || all[0].OfCoordinator() {
					continue
				}
				taken++
				if got := alerts.New(all, nil).Judge(s); len(got) != 1 || !got[0].Raised {
					t.Errorf("%s: %+v", all[0], got)
				}
				break
			}
		}
		if want := map[string]int{"host": 15, "*": 11}[target]; taken != want {
			t.Errorf("%d quantities of %s are taken, want %d", taken, target, want)
		}
	}
}

// TestYes: what is so or not is raised when it has been so for the time, and cleared when it
// has not been so for the same time.
func TestYes(t *testing.T) {
	all := rules(t, "web broken=yes/30s:critical", "host degraded=yes/15s")
	if got := all[0].String(); got != "web broken=yes/30s:critical" {
		t.Errorf("it is written as %s", got)
	}
	j := alerts.New(all, nil)
	at := func(broken, degraded float64, want ...alerts.Change) {
		t.Helper()
		got := j.Judge(metrics.Sample{Span: metrics.Interval, Values: []metrics.Value{
			{Series: metrics.Series{Metric: metrics.Degraded}, Mean: degraded}, {Series: metrics.Series{Container: "web", Metric: metrics.Broken}, Mean: broken},
		}})
		if !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	const web, host = "measured.broken.critical/web/", "measured.degraded.warning//"
	at(1, 0)
	at(0, 0)
	at(1, 0)
	at(1, 0, alerts.Change{ID: web, Severity: alerts.Critical, Raised: true, Text: "web has been broken for 30s"})
	at(1, 1, alerts.Change{ID: host, Severity: alerts.Warning, Raised: true, Text: "the host has been degraded for 15s"})
	at(0, 1)
	at(0, 0, alerts.Change{ID: web, Severity: alerts.Critical, Text: "web has not been broken for 30s"}, alerts.Change{ID: host, Severity: alerts.Warning, Text: "the host has not been degraded for 15s"})
}

// TestNone: a rule whose threshold is 0 is raised by the first that is counted, and cleared
// when nothing is counted any more.
func TestNone(t *testing.T) {
	j := alerts.New(rules(t, "host spool-loss=0/15s"), nil)
	var got []string
	for _, lost := range []float64{0, 3, 3, 0, 0} {
		for _, c := range j.Judge(metrics.Sample{Span: metrics.Interval, Values: []metrics.Value{{Series: metrics.Series{Metric: metrics.SpoolLoss}, Mean: lost}}}) {
			got = append(got, c.Text)
		}
	}
	want := []string{"number of lines lost from the spool within an hour is 3, above 0 for 15s", "number of lines lost from the spool within an hour is 0 again, for 15s"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("web ram=80%/60s cpu=150%:critical")
	f.Add("host load=1e3/5m")
	f.Add("* broken=yes/60s:critical restarts=0")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := alerts.Parse(text)
		if err != nil {
			return
		}
		for _, r := range rules {
			again, err := alerts.Parse(r.String())
			if err != nil || len(again) != 1 || again[0] != r {
				t.Fatalf("%v of %q is read as %v, %v", r, text, again, err)
			}
		}
	})
}

// TestTimes: thresholds that are times, ones that are too low instead of too high, and
// quantities that belong to a host, to a container or to the coordinator.
func TestTimes(t *testing.T) {
	all := rules(t, "host certificate=14d/15s queue-age=10m", "* restarts=3", "host offline=5m:critical")
	if all[0].Threshold != 14*24*3600 || all[1].Threshold != 600 || all[0].String() != "host certificate=336h0m0s/15s" {
		t.Errorf("%v", all)
	}
	for n, want := range []bool{false, false, false, true} {
		if all[n].OfCoordinator() != want {
			t.Errorf("%s is of the coordinator: %v", all[n], !want)
		}
	}
	for text, says := range map[string]string{
		"web offline=5m": "is of a host", "host restarts=3": "is of a container", "host queue-age=10": "no time up to a year",
		"host certificate=400d": "no time up to a year", "host certificate=0d": "no time up to a year", "host certificate=xd": "no time up to a year",
	} {
		if _, err := alerts.Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	life := func(days float64) metrics.Sample {
		return metrics.Sample{Span: metrics.Interval, Values: []metrics.Value{{Series: metrics.Series{Metric: metrics.Certificate}, Mean: days * 24 * 3600}}}
	}
	j := alerts.New(all, nil)
	if got := j.Judge(life(15)); len(got) != 0 {
		t.Errorf("15 days are left: %+v", got)
	}
	if got := j.Judge(life(13)); len(got) != 1 || got[0].Text != "life of the certificate is 13 d, below 14 d for 15s" {
		t.Errorf("13 days are left: %+v", got)
	}
	if got := j.Judge(life(15)); len(got) != 0 {
		t.Errorf("between clearing and raising: %+v", got)
	}
	if got := j.Judge(life(90)); len(got) != 1 || got[0].Raised || got[0].Text != "life of the certificate is 90 d again, above 15 d for 15s" {
		t.Errorf("a new certificate: %+v", got)
	}
}

// TestCombine: a host's own rule counts, of two given ones the one that raises sooner; a
// rule for a container by its name counts more than the one for each container.
func TestCombine(t *testing.T) {
	own := rules(t, "host disk=95%")
	given := rules(t, "host disk=80% certificate=7d", "host certificate=14d", "host load=4/5m", "host load=4/1m")
	want := rules(t, "host disk=95% certificate=14d", "host load=4/1m")
	got := alerts.Combine(own, given)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	j := alerts.New(rules(t, "* ram=50%/15s", "web ram=80%/15s"), nil)
	if got := feed(j, "web", 60, 90, 60); len(got) != 2 || !got[0].Raised || got[1].Raised {
		t.Errorf("the container's own rule does not count: %+v", got)
	}
	if got := feed(j, "db", 60); len(got) != 1 {
		t.Errorf("the rule for each container does not count for another: %+v", got)
	}
	j.Rules(nil)
	if got := feed(j, "db", 60); len(got) != 1 || got[0].Raised {
		t.Errorf("without its rule it stays: %+v", got)
	}
}
