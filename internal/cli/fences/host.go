package fences

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/keyring"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// HostCommands returns hostler host fence, unfence and confirm-fenced.
func HostCommands(e *conn.Env, keys *keyring.Store) []*cobra.Command {
	a := &commands{e, keys}
	return []*cobra.Command{a.hostFenceCommand(), a.hostUnfenceCommand(), a.confirmCommand()}
}

// hostPath is the path of an operation on a host.
func hostPath(name, what string) (string, error) {
	id, err := conn.ParseHost(name)
	if err != nil {
		return "", term.Usage("hostler host ls", "%s", err)
	}
	return "/v1/hosts/" + url.PathEscape(string(id)) + "/" + what, nil
}

// followEvery is how often it is looked whether a fence has ended.
const followEvery = 300 * time.Millisecond

// follow waits for the end of a fence.
func (a *commands) follow(ctx context.Context, r *conn.Remote, f api.Fence) (api.Fence, error) {
	tick := a.Tick("fence of host "+f.Host, f.State)
	defer tick.End()
	for f.EndedAt == nil {
		if err := term.Pause(ctx, followEvery); err != nil {
			return f, err
		}
		if err := r.Get(ctx, fencesPath+"/"+url.PathEscape(f.ID), nil, &f); err != nil {
			return f, err
		}
		tick.Tell(f.State)
		if n := len(f.Log); n > 0 {
			tick.Tell(f.State + ", " + f.Log[n-1].Text)
		}
	}
	return f, nil
}

func (a *commands) hostFenceCommand() *cobra.Command {
	var yes, off, reboot bool
	var reason string
	var tolerance term.DurationFlag
	cmd := &cobra.Command{
		Use: "fence HOST", Short: "Switch a host off, also if that was held back", Args: term.Exactly(1),
		Long: `Has the fence devices of the host switch it off, level by level, until one is known to
have worked. What it holds may start elsewhere then, and what it was asked and has not
ended is LOST. With the reboot that is the default, it is switched on again after that,
and let in when it is heard and has told what it runs.

Everything on the host loses its power, not only what Hostler runs. Exit code 1: no
device has switched it off.`,
		Example: "  hostler host fence edge-07 --reason 'hangs, seen on its console'\n  hostler host fence edge-07 --off --yes", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	f := cmd.Flags()
	f.BoolVar(&off, "off", false, "leave it off")
	f.BoolVar(&reboot, "reboot", false, "switch it on again")
	f.StringVar(&reason, "reason", "", "why, for the history")
	f.Var(&tolerance, "tolerance", "count a fence that is not older than this as this one")
	f.BoolVar(&yes, "yes", false, "do not ask")
	v := show.FormatFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		path, err := hostPath(args[0], "fence")
		if err != nil {
			return err
		}
		want := api.NewFence{Reason: reason, Tolerance: tolerance.String()}
		switch {
		case off && reboot:
			return term.Usage("", "--off and --reboot cannot be combined")
		case off:
			want.Action = "off"
		case reboot:
			want.Action = "reboot"
		}
		if err := a.Confirm(yes, fmt.Sprintf("Switch host %s off, with all that runs on it?", args[0])); err != nil {
			return err
		}
		return a.ask(cmd.Context(), r, v, path, want, "fence host "+args[0])
	})
	return cmd
}

// ask has a fence begun, follows it to its end, and tells what came of it.
func (a *commands) ask(ctx context.Context, r *conn.Remote, v *show.View, path string, want any, what string) error {
	var f api.Fence
	err := r.Post(ctx, path, nil, want, &f)
	if err == nil {
		f, err = a.follow(ctx, r, f)
	}
	if err != nil {
		return term.Cannot(what, err)
	}
	if err := show.Print(a.UI, v, fenceNoun(), []api.Fence{f}); err != nil {
		return err
	}
	if f.State == "failed" {
		why := ""
		if n := len(f.Log); n > 0 {
			why = f.Log[n-1].Text
		}
		return &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: why, Next: "hostler fence history " + f.Host + " -o json"}
	}
	return nil
}

func (a *commands) hostUnfenceCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "unfence HOST", Short: "Switch a host on, or let one that is back in again", Args: term.Exactly(1),
		Long: `Has the fence devices switch the host on. A host that is heard again is let in at once:
the coordinator may place work there, without waiting for fence.reconnect_seconds. With
fence.unfence = "manual" no fenced host is let in without this.`,
		Example: "  hostler host unfence edge-07", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	v := show.FormatFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		path, err := hostPath(args[0], "unfence")
		if err != nil {
			return err
		}
		return a.ask(cmd.Context(), r, v, path, api.NewUnfence{Reason: reason}, "unfence host "+args[0])
	})
	return cmd
}

func (a *commands) confirmCommand() *cobra.Command {
	var key, gpg, reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "confirm-fenced HOST", Short: "Confirm with your signature that a host is off", Args: term.Exactly(1),
		Long: `Signs, with the key of an approver, that the host is off, or cut off from all that its
containers reach, and stays so until it is started anew. What it holds starts elsewhere
then. If the host runs after all, two copies of one container run: look at the machine,
not at a monitor. The confirmation counts for the present silence only; it is refused if
the host is heard before it comes.

Without --key and --gpg, it signs with the key of this machine that the ring gives to an
approver. If several are, name one with --key.`,
		Example: "  hostler host confirm-fenced edge-07 --reason 'unplugged it myself'", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "how you know, for the history")
	f.StringVar(&key, "key", "", "a key of this machine, or a file with one")
	f.StringVar(&gpg, "gpg", "", "sign with gpg, as this user")
	f.BoolVar(&yes, "yes", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("key", a.keys.CompleteKeys)
	v := show.FormatFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		switch {
		case reason == "":
			return term.Usage("add --reason 'unplugged it myself'", "the reason is missing: how you know that host %s is off", args[0])
		case key != "" && gpg != "":
			return term.Usage("", "--key and --gpg cannot be combined")
		}
		path, err := hostPath(args[0], "confirm-fenced")
		if err != nil {
			return err
		}
		signed, err := a.signConfirmation(cmd.Context(), r, args[0], reason, key, gpg, yes)
		if err != nil {
			return err
		}
		return a.ask(cmd.Context(), r, v, path, api.NewFenceConfirmation{Signed: signed}, "confirm that host "+args[0]+" is off")
	})
	return cmd
}

// signConfirmation shows what is confirmed, asks, and signs.
func (a *commands) signConfirmation(ctx context.Context, r *conn.Remote, host, reason, key, gpg string, yes bool) ([]byte, error) {
	path, err := hostPath(host, "fence-case")
	if err != nil {
		return nil, err
	}
	var c api.FenceCase
	if err := r.Get(ctx, path, nil, &c); err != nil {
		return nil, term.Cannot("confirm that host "+host+" is off", err)
	}
	files, chain, err := a.FetchRings(ctx, r, "")
	if err != nil {
		return nil, err
	}
	k, person, err := a.keys.Approver(string(files.Name), chain, key, gpg)
	if err != nil {
		return nil, err
	}
	silent := "was not heard since the coordinator started"
	if c.Silent != "" {
		silent = "was silent for " + c.Silent
	}
	a.Say("Host %s %s, and holds %d unique containers, or may still run them.", host, silent, c.Holds)
	a.Say("You sign as %s of fleet %s that it is off: %s", person, files.Name, reason)
	if err := a.Confirm(yes, fmt.Sprintf("Is host %s off for certain?", host)); err != nil {
		return nil, err
	}
	s, err := a.keys.Signer(k)
	if err != nil {
		return nil, err
	}
	of, err := protocol.ParseDigest(c.Case)
	if err != nil {
		return nil, term.Cannot("read the case of host "+host, err)
	}
	d, err := protocol.NewFenced(chain.Ring().Fleet, chain.Ring().Number, protocol.HostID(host), of, reason, a.Now())
	if err != nil {
		return nil, term.Usage("", "%s", err)
	}
	return d.Seal(s)
}
