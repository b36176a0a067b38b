package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/runner/supervise"
)

// SelfTest has a guard kill a process of our own at its deadline, in a control group of
// its own: what a host says of its self-fence is what was seen. The table that the guard
// has is given back to it. It returns what was at hand during the test. What was not, the
// client asks for no more from then on; without what was, nothing is held.
func SelfTest(ctx context.Context, c *Client) (shown Shown, err error) {
	held, err := c.Held(ctx)
	if err != nil {
		return shown, err
	}
	root, err := supervise.FindCgroup2(os.Getpid())
	if err != nil || root == "" {
		return shown, errors.Join(errors.New("there is no cgroup2 tree to test it in"), err)
	}
	name := "hostler.selftest-" + rand.Text()
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return shown, err
	}
	defer os.Remove(dir)
	group, err := os.Open(dir)
	if err != nil {
		return shown, err
	}
	defer group.Close()
	cmd := exec.CommandContext(ctx, "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd()), Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return shown, fmt.Errorf("start a process to be killed: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with ctx at the latest
	test := Hold{ID: "selftest", Group: name, UntilMS: clock.BootMS() + 50}
	if shown, err = c.set(ctx, append(held, test)); err == nil {
		c.judge(shown)
		select {
		case <-ended:
			ended <- nil
		case <-time.After(5 * time.Second):
			err = errors.New("a process was not killed at its deadline")
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	return shown, errors.Join(err, c.Set(ctx, held))
}
