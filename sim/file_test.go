package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFiles plays the files of testdata and holds their logs to what is kept beside them;
// -update writes that anew.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sim")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := Parse(strings.NewReader(string(text)))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var log strings.Builder
		w.Log = func(at time.Duration, text string) { fmt.Fprintln(&log, at, text) }
		r := Run(w)
		if len(r.Violations) > 0 {
			t.Errorf("%s: %v", path, r.Violations)
		}
		fmt.Fprintln(&log, r)
		golden := strings.TrimSuffix(path, ".sim") + ".log"
		if *update {
			if err := os.WriteFile(golden, []byte(log.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != log.String() {
			t.Errorf("%s is not what is played (run with -update and read the change): %v\n%s", golden, err, log.String())
		}
	}
}

// TestParseRefuses goes through lines that are wrong: each error says what would be right.
func TestParseRefuses(t *testing.T) {
	const good = "host a\nuntil 1m\n"
	for text, want := range map[string]string{
		"":                            "0 hosts",
		"host a\n":                    "until",
		good + "hots b\n":             `line 3: "hots" begins no line`,
		good + "host B\n":             "line 3: host: want a name",
		good + "host a\n":             "host a stands there twice",
		good + "host b cpu=4\n":       "100% is one processor",
		good + "host b memory=8\n":    "512MiB or 8GiB",
		good + "host b fence=yes\n":   "none of [none guard reboot watchdog]",
		good + "host b drift=11\n":    "no lease is safe beyond 10",
		good + "host b pausable=1\n":  "takes no value",
		good + "workload w on=b\n":    `its host "b" does not`,
		good + "workload w after=v\n": `there is no workload "v" after which`,
		good + "workload w after=v\nworkload v after=w":  "w starts after v starts after w",
		good + "at 1m explode a\n":                       `"explode" is no fault: use cut, power-off`,
		good + "at 1m cut\n":                             "of which host or device?",
		good + "at 1m cut b\n":                           `there is no host "b"`,
		good + "at 1m cut a 5m\n":                        "for 5m",
		good + "at -1m cut a\n":                          `"-1m" is no time`,
		good + "until 1000h\n":                           "is not between 0 and",
		good + "network loss=50%\n":                      "is not between 0% and 40%",
		good + "lease ttl=90s takeover=90s\n":            "use at least 1m58s",
		good + "device d\n":                              "device d: a device is for 1 to",
		good + "device d hosts=b\n":                      `device d: there is no host "b"`,
		good + "device d hosts=a level=10\n":             "level 10 is not between 1 and 9",
		good + "device d hosts=a\ndevice d hosts=a\n":    "device d stands there twice",
		good + "fence first=person\n":                    "none of [auto lease device]",
		good + "fence grace=2h\ndevice d hosts=a\n":      "fence.grace_seconds",
		good + "device d hosts=a\nat 1m device-lies a\n": `there is no device "a"`,
		good + "at 1m move w\n":                          "want a workload and a host",
		good + "at 1m move w to a\n":                     `there is no workload "w"`,
		good + "workload w\nat 1m move w to b\n":         `there is no host "b"`,
		good + "seed x\n":                                `seed: "x" is no number`,
		good + strings.Repeat("#\n", maxFile/2):          "larger than",
	} {
		if _, err := Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// FuzzParse: whatever a file holds, it is refused or played.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/lost.sim")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("host a\nhost b\nworkload w on=a keep\ndevice d hosts=a,b\nat 1m pause a for 4m\nat 1m device-hangs d for 1m\nuntil 9m\n")
	f.Add("host a\nhost b\nworkload w on=a\nat 1m move w to b\nat 61s power-off b for 1m\nuntil 9m\n")
	f.Add("host a drift=-9 latency=3s pausable\nworkload w keep\nat 1s pause a for 1m\nuntil 2m\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Parse(strings.NewReader(text))
		if err == nil && len(w.Hosts) <= 3 && len(w.Workloads) <= 3 && w.Until <= 10*time.Minute {
			Run(w)
		}
	})
}
