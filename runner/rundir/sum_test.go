package rundir

import (
	"errors"
	"testing"
)

// TestOneBit turns each bit of each kind of record: none is read as anything,
// least of all as another record.
func TestOneBit(t *testing.T) {
	spec := Spec{Action: "a1", Attempt: 1, Argv: []string{"rm", "-r", "/tmp/x"}, Env: []string{"A=b"}, User: "nobody", TimeoutMS: 60000, Target: map[string]string{"ct": "web"}}
	for name, c := range map[string]struct {
		record []byte
		parse  func([]byte) error
	}{
		"spec":   {AppendSpec(nil, &spec), func(b []byte) error { _, err := ParseSpec(b); return err }},
		"start":  {AppendStart(nil, &Start{Boot: "b", PID: 7, StartTicks: 9, Leaf: "/sys/fs/cgroup/hostler.a1.1", Keep: NewKeep(DefaultCap, true)}), func(b []byte) error { _, err := ParseStart(b); return err }},
		"exit":   {AppendExit(nil, &Exit{Code: 4, Detail: "x", Stdout: Stream{Bytes: 100}}), func(b []byte) error { _, err := ParseExit(b); return err }},
		"holder": {AppendHolder(nil, &Holder{PID: 7, StartTicks: 9}), func(b []byte) error { _, err := ParseHolder(b); return err }},
	} {
		if err := c.parse(c.record); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for bit := range 8 * (len(c.record) - 1) { // the last byte is the end of the line
			c.record[bit/8] ^= 1 << (bit % 8)
			if err := c.parse(c.record); !errors.Is(err, ErrFormat) {
				t.Fatalf("%s: bit %d turned: %v\n%s", name, bit, err, c.record)
			}
			c.record[bit/8] ^= 1 << (bit % 8)
		}
	}
}
