package samples

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var tags = map[string]string{"host": "edge-07", "fleet": "lab"}

func zip(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpack(t *testing.T) {
	lines, n, err := Unpack(zip(t, "hostler_host cpu=1.5,load1=0.25 1780000000000\n"+
		`hostler_container_fs,container=web,mount=/a\ b\,c\=d disk=-3 1780000000000`+"\n"), tags)
	want := "hostler_host,fleet=lab,host=edge-07 cpu=1.5,load1=0.25 1780000000000\n" +
		`hostler_container_fs,container=web,fleet=lab,host=edge-07,mount=/a\ b\,c\=d disk=-3 1780000000000` + "\n"
	if diff := cmp.Diff(want, string(lines)); diff != "" || n != 2 || err != nil {
		t.Error(diff, n, err)
	}
}

// TestRefused: nothing gets into the database that says whose it is, or that the database
// could read in another way.
func TestRefused(t *testing.T) {
	for name, line := range map[string]string{
		"host of its own":         "hostler_host,host=edge-01 cpu=1 1",
		"fleet of its own":        "hostler_host,fleet=x cpu=1 1",
		"another measurement":     "cpu cpu=1 1",
		"no field":                "hostler_host  1",
		"no time":                 "hostler_host cpu=1",
		"time of the future":      "hostler_host cpu=1 9000000000000000000",
		"time with a sign":        "hostler_host cpu=1 +1",
		"time before all":         "hostler_host cpu=1 -1",
		"a fourth part":           "hostler_host cpu=1 1 2",
		"text as field":           `hostler_host cpu="x" 1`,
		"integer as field":        "hostler_host cpu=1i 1",
		"endless":                 "hostler_host cpu=Inf 1",
		"no number":               "hostler_host cpu=NaN 1",
		"tag twice":               "hostler_host,disk=a,disk=b cpu=1 1",
		"tags in disorder":        "hostler_host,mount=a,disk=b cpu=1 1",
		"empty tag":               "hostler_host,disk= cpu=1 1",
		"comma at the end":        "hostler_host, cpu=1 1",
		"comma behind a tag":      "hostler_host,disk=a, cpu=1 1",
		"backslash at the end":    `hostler_host,disk=a\`,
		"backslash before letter": `hostler_host,disk=\a cpu=1 1`,
		"escaped name":            `hostler_host\,host=edge-01 cpu=1 1`,
		"control character":       "hostler_host,disk=a\x00 cpu=1 1",
		"no text":                 "hostler_host,disk=a\xff cpu=1 1",
		"carriage return":         "hostler_host cpu=1 1\r",
		"empty line":              "",
		"long value":              "hostler_host,disk=" + strings.Repeat("a", maxValue+1) + " cpu=1 1",
		"long key":                "hostler_host cpu" + strings.Repeat("a", maxKey) + "=1 1",
	} {
		good := "hostler_host cpu=1 1\n"
		if lines, _, err := Unpack(zip(t, good+line+"\n"), tags); !errors.Is(err, ErrSamples) || lines != nil {
			t.Errorf("%s: %q %v", name, lines, err)
		}
	}
	for name, packed := range map[string][]byte{
		"nothing": nil, "empty": zip(t, ""), "no end": zip(t, "hostler_host cpu=1 1"), "cut": zip(t, "hostler_host cpu=1 1\n")[:20],
		"bomb": zip(t, strings.Repeat("hostler_host cpu=1 1\n", MaxText)),
	} {
		if _, _, err := Unpack(packed, tags); !errors.Is(err, ErrSamples) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPack: what is packed is whole lines that fit, in their order.
func TestPack(t *testing.T) {
	var text []byte
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		text = fmt.Appendf(text, "hostler_container,container=c%d cpu=%v 17800000%05d\n", r.Uint64(), r.Float64(), i)
	}
	for most, until := range map[int]int{1: 20, 1 << 10: 1000, MaxPacked: 5000, 1 << 30: 5000} {
		var got []byte
		whole := bytes.Join(bytes.SplitAfterN(text, []byte("\n"), until+1)[:until], nil)
		for rest := whole; len(rest) > 0; {
			packed, n, err := Pack(rest, most)
			if err != nil {
				t.Fatal(err)
			}
			lines, count, err := Unpack(packed, nil)
			if err != nil || len(packed) > MaxPacked || len(packed) > most && count > 1 || !bytes.Equal(lines, rest[:n]) {
				t.Fatalf("%d of at most %d bytes, %d lines: %v", len(packed), most, count, err)
			}
			got, rest = append(got, lines...), rest[n:]
		}
		if !bytes.Equal(got, whole) {
			t.Errorf("at most %d: another text", most)
		}
	}
}

// FuzzUnpack reads any bytes that a host may send. Lines that Unpack takes are taken again,
// and each has the tags of its sender once.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("hostler_host cpu=1.5 1780000000000\n"), true)
	f.Add([]byte(`hostler_container_fs,container=web,mount=/a\ b disk=-3 1`+"\n"), true)
	f.Add([]byte("hostler_host,host=x cpu=1 1\n"), true)
	f.Add(zip(f, "hostler_host cpu=1 1\n"), false)
	f.Fuzz(func(t *testing.T, b []byte, text bool) {
		if text {
			b = zip(t, string(b))
		}
		lines, n, err := Unpack(b, tags)
		if err != nil {
			return
		}
		if strings.Count(string(lines), "\n") != n || n == 0 {
			t.Fatalf("%d lines: %q", n, lines)
		}
		for line := range strings.Lines(string(lines)) {
			plain := strings.NewReplacer(`\ `, "", `\,`, "", `\=`, "").Replace(line)
			parts := strings.Split(plain, " ")
			if len(parts) != 3 || strings.Count(parts[0], ",host=") != 1 || !strings.Contains(parts[0], ",host=edge-07") || strings.Contains(plain, `\`) {
				t.Errorf("%q", line)
			}
		}
		again, _, err := Unpack(zip(t, string(lines)), nil)
		if err != nil || !bytes.Equal(again, lines) {
			t.Errorf("%q becomes %q: %v", lines, again, err)
		}
	})
}
