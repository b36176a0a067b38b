package simulate

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/term"
)

const lost = `host edge-01
host edge-02
workload db on=edge-01 cpu=100% memory=1GiB
at 5m cut edge-01 for 10m
until 20m
`

// slow is a pipe whose reader takes three seconds for the line of a fault.
type slow struct{ bytes.Buffer }

func (s *slow) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "fault: cut edge-01") {
		time.Sleep(3 * time.Second)
		synctest.Wait()
	}
	return s.Buffer.Write(b)
}

// TestLongPlayTellsHowFarItIs: on a terminal a play that takes longer than a second shows
// which time it has reached, and takes that away; elsewhere it shows nothing of it.
func TestLongPlayTellsHowFarItIs(t *testing.T) {
	const wipe = "\r\x1b[K"
	for name, c := range map[string]struct {
		tty  bool
		want string
	}{
		"terminal": {true, "playing: 25 %, 5m0s of 20m0s, 1 s" + wipe + "playing: 25 %, 5m0s of 20m0s, 2 s" + wipe + "playing: 25 %, 5m0s of 20m0s, 3 s" + wipe},
		"pipe":     {},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out slow
			var shown bytes.Buffer
			ui := &term.UI{In: strings.NewReader(lost), Out: &out, Err: &shown, ErrTTY: c.tty, Getenv: func(string) string { return "" }, Now: time.Now}
			root := &cobra.Command{Use: "hostler"}
			root.AddCommand(Command(ui))
			if code := ui.Run(context.Background(), root, []string{"sim", "-"}); code != 0 || !strings.Contains(out.String(), "\nplayed 20m0s of 2 hosts") {
				t.Errorf("%s: code %d, printed %q", name, code, out.String())
			}
			if got := shown.String(); got != c.want {
				t.Errorf("%s: shown %q, want %q", name, got, c.want)
			}
		})
	}
}
