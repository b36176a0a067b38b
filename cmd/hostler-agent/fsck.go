package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/agent/fsck"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/lxc"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/podman"
)

// errLeft tells that something was found and is still there.
var errLeft = errors.New("something is left")

func fsckCommand(configured loader, logger func(*cobra.Command) *slog.Logger) *cobra.Command {
	var (
		repair bool
		output string
	)
	cmd := &cobra.Command{
		Use: "fsck", Short: "Find what a crash or a person has left of Hostler on this host, and remove it with --repair", Args: noArgs,
		Long: "Look for directories of commands that the agent does not know, control groups of commands that are\n" +
			"over, containers of LXC and podman that are half made, half removed or half started, what is mounted\n" +
			"in them, their locks, cables and rules of ports without a container, and backups that were cut\n" +
			"short, also at the targets of backups, if nothing was written to them for a day. Of each finding it prints what it is, why it is taken for debris, and what --repair does. It\n" +
			"works while the agent is stopped, and then it may repair;\n" +
			"while the agent runs it only looks. It never touches a whole container, the root directory of a\n" +
			"container, or things of other programs. The exit code is 1 if anything is left, or could not be looked at.",
		Example: "  hostler-agent fsck\n  systemctl stop hostler-agent && hostler-agent fsck --repair; systemctl start hostler-agent\n  hostler-agent fsck -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return daemon.Usage(fmt.Errorf("-o %s: want text or json", output))
			}
			if err := needsRoot("fsck", os.Geteuid()); err != nil {
				return err
			}
			c, _, err := configured()
			if err != nil {
				return err
			}
			r, err := check(cmd.Context(), c, repair, logger(cmd))
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(r)
			} else {
				err = printReport(cmd.OutOrStdout(), r)
			}
			if err == nil && r.Left()+len(r.Unchecked) > 0 {
				err = errLeft
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "remove what bears the marks of Hostler; the agent must be stopped")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// withoutTargets is for who must not wait for a target of backups that does not answer.
func (c config) withoutTargets() config {
	c.Backups.Targets, c.Backups.S3Credentials = nil, nil
	return c
}

// check looks at this host, and repairs it if no other process is at work.
func check(ctx context.Context, c config, repair bool, log *slog.Logger) (r fsck.Report, err error) {
	s := state(c.StateDir)
	if repair {
		if err := s.prepare(); err != nil {
			return r, err
		}
		held, err := s.lock(lockRun)
		if errors.Is(err, errLocked) {
			return r, fmt.Errorf("%w: the agent runs and repairs much of it by itself; stop it first (with systemd: systemctl stop hostler-agent); containers and commands go on", errRefused)
		}
		if err != nil {
			return r, err
		}
		defer held.Close()
	}
	tidiers, err := openTidiers(s, c, log)
	if err != nil {
		return r, err
	}
	own := backup.Store{Dir: s.backups()}
	targets, err := backup.ParseTargets(c.Backups.Targets, c.Backups.access())
	if err != nil {
		return r, err
	}
	kept := make(map[string]container.Tidier)
	for _, name := range targets.Names() {
		kept[name] = backup.TargetTidier{Own: own, Targets: targets, Name: name}
	}
	return fsck.Check(ctx, fsck.Config{
		Runs: s.runs(), Memory: s.queueFile(), Spare: string(s), Runtimes: tidiers, Backups: own, Targets: kept,
		Networks: func(containers, networks func(context.Context) (map[string]bool, error)) container.Tidier {
			return network.Tidier{Mark: s.mark(), Known: containers, Networks: networks}
		},
	}, repair), nil
}

// openTidiers returns the container technologies as they find what is left. Nothing is
// asked of them yet: the first question to LXC would tidy up.
func openTidiers(s state, c config, log *slog.Logger) (map[string]container.Tidier, error) {
	all := make(map[string]container.Tidier)
	l, err := lxc.New(lxc.Config{Helper: c.LXC.Helper, LXCPath: c.LXC.Path, LockDir: s.locks(), IDs: c.LXC.ids(), Log: log})
	if err != nil {
		return nil, err
	}
	all[string(container.KindLXC)] = l
	if _, err := os.Stat(c.Podman.Socket); c.Podman.Use == podmanOff || c.Podman.Use == podmanAuto && errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	p, err := podman.New(podman.Config{Socket: c.Podman.Socket, Permits: c.permits(), IDs: c.Podman.ids(), Bridge: c.Network.Bridge, Log: log})
	if err != nil {
		return nil, err
	}
	all[string(container.KindPodman)] = p
	return all, nil
}

// printReport writes a report for people.
func printReport(w io.Writer, r fsck.Report) error {
	var b strings.Builder
	for _, d := range r.Findings {
		fmt.Fprintf(&b, "%s %q\n  why:    %s\n", d.Kind, d.Object, d.Cause)
		switch {
		case d.Repaired:
			fmt.Fprintf(&b, "  done:   %s\n", d.Repair)
		case d.Failure != "":
			fmt.Fprintf(&b, "  failed: %s: %q\n", d.Repair, d.Failure)
		case d.Repair != "":
			fmt.Fprintf(&b, "  repair: %s\n", d.Repair)
		default:
			fmt.Fprintf(&b, "  left alone; %s\n", d.Advice)
		}
	}
	for _, part := range r.Unchecked {
		fmt.Fprintf(&b, "not checked: %q\n", part)
	}
	fmt.Fprintf(&b, "%d found, %d left\n", len(r.Findings), r.Left())
	_, err := io.WriteString(w, b.String())
	return err
}
