package hostcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/protocol/hostcmd"
)

// defaultTail is how many lines of a log are printed unless the user says otherwise.
const defaultTail = 10_000

// logsCommand prints the log of a container. It asks the runtime by itself, so that it
// goes on while the agent restarts.
func logsCommand() *cobra.Command {
	var path, socket, runtime, name, source string
	var since time.Duration
	q := container.LogQuery{}
	cmd := &cobra.Command{
		Use: "logs --runtime RUNTIME --name NAME", Short: "Print what a container has printed", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since > 0 {
				q.Since = clock.Now().Add(-since)
			}
			if q.Tail == 0 {
				q.Tail = defaultTail
			}
			q.Runtime = source == hostcmd.LogRuntime
			return printLog(cmd.Context(), container.Kind(runtime), path, socket, name, q, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&path, "lxc-path", "", "directory of the containers of LXC")
	f.StringVar(&socket, "podman-socket", "", "socket of podman's service")
	f.StringVar(&runtime, "runtime", "", "lxc or podman")
	f.StringVar(&name, "name", "", "name of the container")
	f.StringVar(&source, "source", hostcmd.LogOutput, "output or runtime")
	f.DurationVar(&since, "since", 0, "how far back")
	f.IntVar(&q.Tail, "tail", 0, "how many lines of the end")
	f.BoolVar(&q.Follow, "follow", false, "go on with what comes")
	return cmd
}

func printLog(ctx context.Context, kind container.Kind, path, socket, name string, q container.LogQuery, stdout, stderr io.Writer) error {
	var r container.Runtime
	var err error
	switch kind {
	case container.KindLXC:
		r, err = lxc.New(lxc.Config{Helper: "/nowhere", LXCPath: path, LockDir: "/nowhere"}) // its files tell all
	case container.KindPodman:
		r, err = podman.New(podman.Config{Socket: socket})
	default:
		return daemon.Usage(errors.New("--runtime is lxc or podman"))
	}
	if err != nil {
		return err
	}
	defer r.Close()
	l, ok := r.(container.Logger)
	if !ok {
		return fmt.Errorf("%w: %s keeps no logs", container.ErrUnsupported, kind)
	}
	return l.Log(ctx, name, q, stdout, stderr)
}
