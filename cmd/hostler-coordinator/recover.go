package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/recovery"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func recoverCommand(configured loader) *cobra.Command {
	var r recoverRun
	var asNewFleet bool
	cmd := &cobra.Command{
		Use:   "recover [--ring FILE]",
		Short: "Make a restored or outdated coordinator a newer one",
		Long: `For a coordinator whose state directory was restored from a backup, or went back
in time: it no longer knows what it has asked of its hosts. Stop it first.

The first call makes a new key and prints a request, which an owner of the fleet
answers with a ring that names the new key in place of the old one. With that
ring, --ring FILE makes the database another one: hosts follow it because its
ring is newer, and no host obeys an older copy any more. Nothing that
was asked before is sent again. Each host that comes back is asked what it knows;
what it did is taken over, and what it does not know is LOST. hostler status tells
how many have answered.

--as-new-fleet makes a copy for trying things out instead, as part of the fleet
of --fleet CODE (hostler fleet init makes one). Its hosts are strangers to it and
it is one to them: neither believes a word of the other.`,
		Example: "  hostler-coordinator recover\n  hostler-coordinator recover --ring ring-7\n  hostler-coordinator recover --as-new-fleet --fleet hf1_…",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			r.state, r.out, r.talk = state(c.StateDir), cmd.OutOrStdout(), cmd.ErrOrStderr()
			if asNewFleet != (r.fleet != "") {
				return daemon.Usage(errors.New("--as-new-fleet and --fleet CODE belong together; hostler fleet init NAME makes a fleet and prints its code"))
			}
			return r.state.handingOver(func() error { return r.run(cmd.Context()) })
		},
	}
	cmd.Flags().StringVar(&r.ring, "ring", "", "file with the rings of the fleet; the newest must name the new key")
	cmd.Flags().BoolVar(&asNewFleet, "as-new-fleet", false, "make a copy that is part of another fleet")
	cmd.Flags().StringVar(&r.fleet, "fleet", "", "code of that fleet")
	cmd.Flags().BoolVar(&r.force, "force", false, "also if nothing is known that speaks against this state directory")
	cmd.Flags().BoolVar(&r.revoke, "revoke-access", false, "revoke all tokens and viewers, and print a new token")
	return cmd
}

// recoverRun is one run of the command.
type recoverRun struct {
	state     state
	ring      string
	fleet     string
	force     bool
	revoke    bool
	out, talk io.Writer
}

// nothing tells that there is nothing to recover.
func (r *recoverRun) nothing() error {
	return fmt.Errorf("%w\nTo restore a backup: hostler-coordinator restore FILE", r.state.missing())
}

func (r *recoverRun) run(ctx context.Context) error {
	held, err := r.state.lock("recover")
	if errors.Is(err, fs.ErrNotExist) {
		return r.nothing()
	}
	if err != nil {
		return err
	}
	defer held.Close()
	mark, err := r.begin(ctx)
	if err != nil {
		return err
	}
	id, ca, code, err := r.identity(mark)
	if err != nil {
		return err
	}
	if r.ring != "" {
		return r.finish(ctx, mark, id, ca, code)
	}
	request, err := enrol.CoordinatorRequest{Fleet: code.Fleet, Key: id.Public(), TLSCA: ca.Certificate()}.Encode()
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	fmt.Fprintf(r.out, "request: %s\n", request)
	verb := "replace-coordinator REQUEST --old " + mark.Former.String()
	if mark.NewFleet != "" {
		verb = "add-coordinator REQUEST"
	}
	fmt.Fprintf(r.talk, "Next, where an owner of fleet %s is:\n  hostler fleet ring %s --out FILE\nand then here:\n  hostler-coordinator recover --ring FILE\n", code.Name, verb)
	return nil
}

// begin finds out whether there is something to recover from, and notes it.
func (r *recoverRun) begin(ctx context.Context) (recoveryMark, error) {
	mark, waits, err := r.state.recovery()
	switch {
	case err != nil:
		return mark, err
	case waits && mark.Stage == restoring:
		return mark, r.state.usable()
	case waits && mark.Stage == recovering && r.fleet != "" && r.fleet != mark.NewFleet:
		return mark, fmt.Errorf("%s is being recovered already, for another fleet: restore the backup anew", r.state)
	case waits && mark.Stage == recovering:
		return mark, nil
	case !waits:
		if mark, err = r.outdated(ctx); err != nil {
			return mark, err
		}
	}
	if r.ring != "" {
		return mark, errors.New("no new key exists yet for a ring to name\nRun first: hostler-coordinator recover")
	}
	if r.fleet != "" {
		code, err := enrol.ParseFleetCode(r.fleet)
		if err != nil {
			return mark, fmt.Errorf("--fleet: %w", err)
		}
		old, err := r.state.code()
		if err != nil {
			return mark, err
		}
		if old.Fleet == code.Fleet {
			return mark, fmt.Errorf("--fleet is the code of this coordinator's own fleet %s; make another fleet: hostler fleet init NAME", old.Name)
		}
		mark.NewFleet, mark.FormerFleet = r.fleet, fmt.Sprintf("fleet %s (%s)", old.Name, old.Fleet)
	}
	// A recovery that was killed at its very end has left its key, which is the
	// present one now.
	if err := errors.Join(durable.Remove(r.state.nextIdentity()), durable.Remove(r.state.nextAuthority()), durable.Sync(string(r.state))); err != nil {
		return mark, err
	}
	mark.Stage = recovering
	return mark, r.state.putRecovery(mark)
}

// outdated judges a state directory that was used until now.
func (r *recoverRun) outdated(ctx context.Context) (mark recoveryMark, err error) {
	id, err := certs.LoadIdentity(r.state.identity())
	if errors.Is(err, fs.ErrNotExist) {
		return mark, r.nothing()
	}
	if err != nil {
		return mark, err
	}
	store, err := r.open(ctx)
	if err != nil {
		return mark, err
	}
	why, err := recovery.Needed(ctx, store)
	if err := errors.Join(err, store.Close()); err != nil {
		return mark, err
	}
	if why == "" && !r.force {
		return mark, fmt.Errorf("nothing speaks against this state directory: %s is no restored backup, and no host has shown newer messages\n"+
			"Run: hostler-coordinator run\nIf you know better: hostler-coordinator recover --force", r.state)
	}
	return recoveryMark{Former: id.Key()}, nil
}

func (r *recoverRun) open(ctx context.Context) (*sqlstore.Store, error) {
	store, err := sqlstore.Open(ctx, sqlstore.Config{Path: r.state.store()})
	if err != nil {
		return nil, fmt.Errorf("%w\nIf the coordinator runs, stop it first", err)
	}
	return store, nil
}

// identity makes the key that the coordinator is to have, or loads it, and the
// authority beside it: that of before, if it is there and the fleet stays.
func (r *recoverRun) identity(mark recoveryMark) (*certs.Identity, *certs.Authority, enrol.FleetCode, error) {
	code, err := r.state.code()
	authority := r.state.authority()
	if err == nil && mark.NewFleet != "" {
		code, err = enrol.ParseFleetCode(mark.NewFleet)
		authority = r.state.nextAuthority()
	}
	if err != nil {
		return nil, nil, code, err
	}
	id, err := durable.LoadOr(certs.LoadIdentity, r.state.nextIdentity(), func() (*certs.Identity, error) {
		return certs.CreateIdentity(r.state.nextIdentity(), "hostler coordinator of "+string(code.Name))
	})
	if err != nil {
		return nil, nil, code, fmt.Errorf("make the key: %w", err)
	}
	ca, err := durable.LoadOr(certs.LoadAuthority, authority, func() (*certs.Authority, error) {
		return certs.CreateAuthority(authority, string(code.Name))
	})
	if err != nil {
		return nil, nil, code, fmt.Errorf("make the authority: %w", err)
	}
	return id, ca, code, nil
}

// finish makes the coordinator the one that the ring names. Each step can be done
// again: what says that the directory waits is removed last.
func (r *recoverRun) finish(ctx context.Context, mark recoveryMark, id *certs.Identity, ca *certs.Authority, code enrol.FleetCode) error {
	chain, err := r.rings(mark, code, id)
	if err != nil {
		return err
	}
	if mark.NewFleet == "" {
		if err := r.state.keep(chain); err != nil {
			return err
		}
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	done, err := recovery.Recover(ctx, store, recovery.Config{
		Key: id.Key(), Ring: chain.Ring().Number, BackupMS: mark.BackupMS, FormerFleet: mark.FormerFleet,
		RevokeAccess: r.revoke, Now: clock.Now(), Rand: rand.Reader,
	})
	token := ""
	if err == nil && (r.revoke || mark.NewFleet != "") {
		token, err = access.AdminToken(ctx, store, rand.Reader, clock.Now(), "recover")
	}
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	if err := r.replace(mark, chain, code); err != nil {
		return err
	}
	report := reportOf(done, chain)
	if mark.NewFleet == "" && chain.IsNewAuthority(ca.Certificate()) {
		report += fmt.Sprintf("\nThe TLS authority is new. Machines that keep the rings of the fleet, as after hostler login, follow the new ring by themselves.\n"+
			"On the others, log in again: hostler login CODE, with a code of hostler token create NAME --role ROLE; or\n"+
			"hostler login https://HOST:PORT --token-file FILE --ca FILE, with a copy of %s, which hostler-coordinator run writes.\n", r.state.caFile())
	}
	if err := durable.WriteFile(r.state.report(), []byte(report), 0o600, maxFile); err != nil {
		return err
	}
	fmt.Fprint(r.out, report)
	if token != "" {
		fmt.Fprintf(r.out, "token: %s\n", token)
	}
	failpoint.Before(failpoint.RecoveryEnded)
	if err := errors.Join(os.Remove(r.state.marker()), durable.Sync(string(r.state))); err != nil {
		return err
	}
	failpoint.After(failpoint.RecoveryEnded)
	fmt.Fprintf(r.talk, "This is kept in %s.\nNext: hostler-coordinator run, and then hostler status, which tells how many hosts have answered\n", r.state.report())
	return errors.Join(durable.Remove(r.state.nextIdentity()), durable.Remove(r.state.nextAuthority()))
}

// rings opens the rings of a file, the newest of which has to let the new key in
// and the old one not any more.
func (r *recoverRun) rings(mark recoveryMark, code enrol.FleetCode, id *certs.Identity) (*certs.Chain, error) {
	b, err := durable.ReadFile(r.ring, maxFile)
	if err != nil {
		return nil, err
	}
	parts, err := certs.DecodeFile(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.ring, err)
	}
	var chain *certs.Chain
	if mark.NewFleet != "" {
		chain, err = certs.OpenChain(code.Pin, parts...)
	} else if chain, err = r.state.chain(); err == nil {
		chain, err = chain.AdvanceAll(parts)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.ring, err)
	}
	number := chain.Ring().Number
	if _, ok := chain.Coordinator(id.Key()); !ok {
		return nil, fmt.Errorf("ring %d of %s does not name the new key %s\nRun hostler-coordinator recover again: it prints the command for the owner", number, r.ring, id.Key())
	}
	if _, ok := chain.Coordinator(mark.Former); ok {
		return nil, fmt.Errorf("ring %d of %s names the key of before, %s, too: an older copy of this coordinator could go on beside this one\n"+
			"Run where an owner is: hostler fleet ring remove-coordinator %s --out FILE\nand then here: hostler-coordinator recover --ring FILE", number, r.ring, mark.Former, mark.Former)
	}
	return chain, nil
}

// replace puts the new key, and what else belongs to another fleet, in place.
func (r *recoverRun) replace(mark recoveryMark, chain *certs.Chain, code enrol.FleetCode) error {
	files := [][2]string{{r.state.nextIdentity(), r.state.identity()}}
	if mark.NewFleet != "" {
		if err := errors.Join(os.RemoveAll(r.state.path("rings")), durable.WriteFile(r.state.fleet(), []byte(code.Encode()+"\n"), 0o600, maxFile)); err != nil {
			return err
		}
		if err := r.state.keep(chain); err != nil {
			return err
		}
		files = append(files, [2]string{r.state.nextAuthority(), r.state.authority()})
	}
	failpoint.Before(failpoint.KeyReplaced)
	for _, f := range files {
		b, err := durable.ReadFile(f[0], maxFile)
		if err == nil {
			err = durable.WriteFile(f[1], b, 0o600, maxFile)
		}
		if err != nil {
			return err
		}
	}
	failpoint.After(failpoint.KeyReplaced)
	// Who has the backup may have these, too; they are made anew.
	return errors.Join(durable.Remove(r.state.tlsKey()), durable.Remove(r.state.tlsCert()), durable.Remove(r.state.tickets()))
}

// reportOf says what a recovery did, and what it cannot know.
func reportOf(d recovery.Recovered, chain *certs.Chain) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("recovered: %s", date(d.AtMS))
	line("fleet: %s", chain.Ring().Name)
	line("ring: %d", d.Ring)
	line("key: %s", d.Key)
	if d.BackupMS != 0 {
		line("backup: %s", date(d.BackupMS))
	}
	if d.FormerFleet != "" {
		line("hosts: %d, which stay with %s and are strangers here", d.Hosts, d.FormerFleet)
		line("actions: %d that had not ended are LOST or CANCELLED (host_removed) here", d.Actions)
		line("\nAll tokens and viewers of %s are revoked here.", d.FormerFleet)
		return b.String()
	}
	line("hosts: %d to be asked", d.Hosts)
	line("actions: %d had not ended, %d of them waited for approval", d.Actions, d.Waiting)
	line("audit log: goes on behind record %d", d.AuditN)
	line("\nWhat the coordinator before did last is not known here:")
	line("- Actions that had not ended are not sent. Their hosts are asked; until one has answered, its actions stay as they are. Those that waited for approval can be approved once their host has said that it does not know them.")
	line("- Records %d and later of its audit log are missing. hostler status tells up to which one hosts have seen it sealed.", d.AuditN+1)
	line("- Hosts that were let in since are not known, and join anew. Hosts that were revoked since are members again; revoke them again: hostler host revoke HOST")
	line("- Codes to join that were given out count no more.")
	for _, host := range d.Readmitted {
		line("- No longer quarantined, because it is asked anew: %s", host)
	}
	if len(d.Tokens)+len(d.Viewers) == 0 {
		line("- All tokens and viewers are revoked.")
		return b.String()
	}
	line("- Tokens and viewers that were revoked since are in force again, and those that were made are not. In force are:")
	for _, t := range d.Tokens {
		line("    token %s", t)
	}
	for _, v := range d.Viewers {
		line("    viewer %s", v)
	}
	line("  To revoke one: hostler token revoke ID, hostler viewer revoke NAME")
	return b.String()
}
