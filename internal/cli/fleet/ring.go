package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// ringChange makes the next ring out of one that says what the last did. args are
// those of the command.
type ringChange func(r *certs.Ring, args []string) error

// howRingsAreSigned ends the help of every command that changes the ring.
const howRingsAreSigned = `

The ring is signed with the owner's key of this machine and written to the file
that --out names. If the ring in force asks for more owners, the file goes from
one to the next (hostler fleet ring sign) until enough have signed; then it is in
force here. The coordinator takes it by hostler fleet ring publish while it runs,
or by hostler-coordinator init --ring.`

// ringChangeCommand is a command that signs the next ring.
func (a *commands) ringChangeCommand(cmd *cobra.Command, count cobra.PositionalArgs, change ringChange) *cobra.Command {
	fleet := a.FleetFlag(cmd)
	var out string
	cmd.Args = count
	cmd.Long += howRingsAreSigned
	cmd.Flags().StringVar(&out, "out", "", "write the rings to this file")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if out == "" {
			return term.Usage("add --out FILE", "--out is missing: the ring must be written to a file")
		}
		f, chain, err := a.ChooseFleet(*fleet)
		if err != nil {
			return err
		}
		raw, err := signNext(f, chain, args, change)
		if err == nil {
			err = a.handOn(f, chain, raw, out)
		}
		return term.Cannot("change the ring", err)
	}
	return cmd
}

func (a *commands) addCoordinatorCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "add-coordinator REQUEST", Short: "Add a coordinator to the ring",
		Long:    "Adds the coordinator that printed REQUEST.",
		Example: "  hostler fleet ring add-coordinator hc1_… --out ring-2\n  hostler-coordinator init --ring ring-2",
	}, term.Exactly(1), addCoordinator)
}

func addCoordinator(r *certs.Ring, args []string) error {
	q, err := enrol.ParseCoordinatorRequest(args[0])
	if err != nil {
		return term.Usage("hostler-coordinator init --fleet CODE prints one", "%s", err)
	}
	return r.AddCoordinator(q)
}

func (a *commands) replaceCoordinatorCommand() *cobra.Command {
	var old string
	cmd := a.ringChangeCommand(&cobra.Command{
		Use: "replace-coordinator REQUEST", Short: "Replace a coordinator in the ring",
		Long: `Adds the coordinator that printed REQUEST, and removes the one that it replaces:
after a restore from a backup (hostler-coordinator recover prints the request), or
after the loss of a disk. A host that has the ring no longer obeys the old
coordinator. --old is needed if there are several.`,
		Example: "  hostler fleet ring replace-coordinator hc1_… --out ring-7\n  hostler-coordinator recover --ring ring-7",
	}, term.Exactly(1), func(r *certs.Ring, args []string) error {
		key, err := replacedKey(r, old)
		if err != nil {
			return err
		}
		if err := addCoordinator(r, args); err != nil {
			return err
		}
		if err := asksForItself(args[0], key); err != nil {
			return err
		}
		return r.RemoveCoordinator(key)
	})
	cmd.Flags().StringVar(&old, "old", "", "fingerprint of the key of the coordinator to remove")
	return cmd
}

// asksForItself refuses the request of the coordinator that is to go: it would
// leave nobody in its place.
func asksForItself(request string, old protocol.KeyID) error {
	q, err := enrol.ParseCoordinatorRequest(request)
	if err != nil {
		return err
	}
	k, err := certs.ParsePublicKey(q.Key)
	if err == nil && k.Key() == old {
		err = term.Usage("hostler-coordinator recover, which makes a new key and prints a request", "the request is that of coordinator %s itself", old)
	}
	return err
}

// replacedKey is the key of the coordinator to take out: the one that is named,
// or the only one.
func replacedKey(r *certs.Ring, named string) (key protocol.KeyID, err error) {
	if len(r.Coordinators) == 0 {
		return key, term.Usage("hostler fleet ring add-coordinator REQUEST", "ring %d has no coordinator to replace", r.Number-1)
	}
	if named == "" {
		if len(r.Coordinators) != 1 {
			return key, term.Usage("hostler fleet show, then the same with --old KEY", "ring %d has %d coordinators: choose one with --old", r.Number-1, len(r.Coordinators))
		}
		k, err := certs.ParsePublicKey(r.Coordinators[0].Key)
		if err != nil {
			return key, err
		}
		return k.Key(), nil
	}
	if err := key.UnmarshalText([]byte(named)); err != nil {
		return key, term.Usage("hostler fleet show", "--old: %.80q is not the fingerprint of a key: %s", named, err)
	}
	return key, nil
}

func (a *commands) removeCoordinatorCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "remove-coordinator KEY", Short: "Remove a coordinator from the ring",
		Long: `Takes all rights from a coordinator: a host that has the ring no longer obeys it.
KEY is its fingerprint, as shown by hostler fleet show.`,
		Example: "  hostler fleet ring remove-coordinator 7C1F…0A44 --out ring-3\n  hostler fleet ring publish",
	}, term.Exactly(1), func(r *certs.Ring, args []string) error {
		var key protocol.KeyID
		if err := key.UnmarshalText([]byte(args[0])); err != nil {
			return term.Usage("hostler fleet show", "%.80q is not the fingerprint of a key: %s", args[0], err)
		}
		return r.RemoveCoordinator(key)
	})
}

func (a *commands) reinstateCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "reinstate KEY", Short: "Make revocations of a key of the ring void",
		Long: `Gives a key of the ring its rights back, for example after a thief has revoked it with
a stolen coordinator key. KEY is its fingerprint, as shown by hostler fleet show. A new
ring without this change leaves the key revoked. Afterwards no coordinator can revoke
the key again; to take its rights away, remove it from the ring.`,
		Example: "  hostler fleet ring reinstate 7C1F…0A44 --out ring-8\n  hostler fleet ring publish",
	}, term.Exactly(1), func(r *certs.Ring, args []string) error {
		var key protocol.KeyID
		if err := key.UnmarshalText([]byte(args[0])); err != nil {
			return term.Usage("hostler fleet show", "%.80q is not the fingerprint of a key: %s", args[0], err)
		}
		return r.Reinstate(key)
	})
}

func (a *commands) addOwnerCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "add-owner REQUEST", Short: "Add an owner to the ring",
		Long:    "Adds the owner who printed REQUEST. set-threshold says how many owners must sign.",
		Example: "  hostler fleet ring add-owner ho1_… --out ring-3",
	}, term.Exactly(1), func(r *certs.Ring, args []string) error {
		q, err := enrol.ParseOwnerRequest(args[0])
		if err != nil {
			return term.Usage("hostler fleet request-owner CODE prints one", "%s", err)
		}
		return r.AddOwner(q)
	})
}

func (a *commands) removeOwnerCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "remove-owner PERSON", Short: "Remove an owner from the ring",
		Long: `Takes an owner out, whose key was lost or stolen for example. Those who remain
must be as many as the threshold asks for, and as many owners as it asks for must
sign: a fleet whose owners have lost so many keys that the threshold cannot be
met can never change its ring again. Hosts and coordinators go on under the last
one; to change it, make a new fleet and let the hosts leave and join.`,
		Example: "  hostler fleet ring remove-owner bob --out ring-4",
	}, term.Exactly(1), func(r *certs.Ring, args []string) error { return r.RemoveOwner(args[0]) })
}

func (a *commands) addApproverCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "add-approver PERSON KEY…", Short: "Add an approver, or keys of one, to the ring",
		Long: `Lets a person sign approvals with keys. KEY is a file with a certificate (binary,
or text as hostler key export and gpg --armor --export write it), or the name of
a key of this machine. A known key is replaced by its new form. Where several people must approve, the
keys of one person count as one.`,
		Example: "  hostler fleet ring add-approver alice alice.asc --out ring-4\n  hostler fleet ring publish",
	}, term.AtLeast(2), func(r *certs.Ring, args []string) error {
		for _, arg := range args[1:] {
			k, err := a.keys.FindKey(arg)
			if err != nil {
				return term.Cannot("read key "+arg, err)
			}
			if err := r.AddPersonKey(args[0], k.Public); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *commands) removeApproverCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "remove-approver PERSON [KEY…]", Short: "Remove an approver, or keys of one, from the ring",
		Long: `Takes the right to approve from a person, or from keys of one, named by their
fingerprints. As soon as a host has the ring, approvals by those keys count for
nothing any more, also those that were signed before.`,
		Example: "  hostler fleet ring remove-approver alice --out ring-5\n  hostler fleet ring remove-approver alice 7C1F…0A44 --out ring-5",
	}, term.AtLeast(1), func(r *certs.Ring, args []string) error {
		keys := make([]protocol.KeyID, len(args)-1)
		for i, arg := range args[1:] {
			if err := keys[i].UnmarshalText([]byte(arg)); err != nil {
				return term.Usage("hostler fleet ring show", "%.80q is not the fingerprint of a key: %s", arg, err)
			}
		}
		return r.RemovePerson(args[0], keys...)
	})
}

func (a *commands) setThresholdCommand() *cobra.Command {
	return a.ringChangeCommand(&cobra.Command{
		Use: "set-threshold N", Short: "Set how many owners must sign a ring",
		Long:    "From the ring after this one on, N different owners must sign.",
		Example: "  hostler fleet ring set-threshold 2 --out ring-4",
	}, term.Exactly(1), func(r *certs.Ring, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return term.Usage("hostler fleet ring set-threshold 2", "%q is not a number", args[0])
		}
		return r.SetThreshold(n)
	})
}

// signNext makes the next ring and signs it with the owner's key of this
// machine.
func signNext(f conn.FleetFiles, chain *certs.Chain, args []string, change ringChange) ([]byte, error) {
	ring := chain.Next()
	if err := change(&ring, args); err != nil {
		return nil, err
	}
	owner, err := f.Owner()
	if err != nil {
		return nil, err
	}
	return certs.SignRing(ring, owner)
}

// handOn writes a ring to a file, behind those that it follows. If enough owners
// have signed, it is in force here from now on.
func (a *commands) handOn(f conn.FleetFiles, chain *certs.Chain, raw []byte, out string) error {
	p, err := chain.Pending(raw)
	if errors.Is(err, protocol.ErrUnknownKey) || errors.Is(err, protocol.ErrRole) {
		return &term.Failure{Code: term.ExitRefused, What: "cannot sign ring " + fmt.Sprint(chain.Ring().Number+1),
			Why: fmt.Sprintf("the key %s belongs to no owner in ring %d", f.OwnerKey(), chain.Ring().Number), Next: "run this on the machine of an owner"}
	}
	if err != nil {
		return err
	}
	if err := conn.ReplaceFile(out, certs.EncodeFile(append(chain.Rings(), raw)), 0o644); err != nil {
		return err
	}
	if !p.Complete() {
		a.Say("Ring %d of fleet %s is signed by %s: %d of %d owners. It is not in force yet.", p.Ring.Number, f.Name, strings.Join(p.Signed, ", "), len(p.Signed), p.Needed)
		a.Say("Next, on the machine of %s: hostler fleet ring sign %s", strings.Join(p.Missing, " or "), out)
		return nil
	}
	next, err := chain.Advance(raw)
	if err != nil {
		return err
	}
	if err := f.Save(next); err != nil {
		return err
	}
	r := next.Ring()
	a.Say("Ring %d of fleet %s is in force: %d owner(s), %d must sign, and %d coordinator(s).", r.Number, f.Name, len(r.Owners), r.Threshold, len(r.Coordinators))
	a.Say("Next, for a coordinator that runs: hostler fleet ring publish; for a new one, on its machine: hostler-coordinator init --ring %[1]s, or recover --ring %[1]s if it was restored", out)
	return nil
}

func (a *commands) ringSignCommand() *cobra.Command {
	var yes bool
	var out string
	cmd := &cobra.Command{
		Use: "sign FILE", Short: "Add this owner's signature to a ring", Args: term.Exactly(1),
		Long: `Shows the changes of the ring in FILE, signs it with the owner's key on this
machine and writes it back, for the next owner or for the coordinator. A ring
with enough signatures is only stored.`,
		Example: "  hostler fleet ring sign ring-4\n  hostler fleet ring sign ring-4 --yes --out ring-4-signed",
	}
	fleet := a.FleetFlag(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&out, "out", "", "write to this file instead of FILE")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		b, err := conn.ReadSmall(args[0])
		if err != nil {
			return term.Cannot("read the ring", err)
		}
		parts, err := certs.DecodeFile(b)
		if err != nil {
			return term.Cannot("read the ring "+args[0], err)
		}
		f, chain, raw, err := a.openPending(*fleet, parts)
		if err != nil {
			return term.Cannot("sign the ring", err)
		}
		if raw == nil {
			a.Say("Ring %d of fleet %s is in force; there is nothing to sign.", chain.Ring().Number, f.Name)
			return term.Cannot("keep the ring", f.Save(chain))
		}
		return term.Cannot("sign the ring", a.signPending(f, chain, raw, cmp.Or(out, args[0]), yes))
	}
	return cmd
}

// openPending brings the chain of this machine up to what a file holds, and
// returns the ring in it that needs more signatures; nil if none does.
func (a *commands) openPending(fleet string, parts [][]byte) (f conn.FleetFiles, chain *certs.Chain, raw []byte, err error) {
	if fleet == "" {
		// The file says which fleet it is of; the chain, whether that is so.
		r, err := conn.RingOf(parts[len(parts)-1])
		if err != nil {
			return f, nil, nil, err
		}
		fleet = string(r.Name)
	}
	if f, err = a.FleetFiles(fleet); err != nil {
		return f, nil, nil, err
	}
	last := len(parts) - 1
	if chain, err = f.Load(); errors.Is(err, fs.ErrNotExist) {
		chain, err = beginRings(f, parts[:last])
	} else if err == nil {
		chain, err = chain.AdvanceAll(parts[:last])
	}
	if err != nil {
		return f, nil, nil, err
	}
	whole, err := chain.Advance(parts[last])
	if errors.Is(err, certs.ErrThreshold) {
		return f, chain, parts[last], nil
	}
	return f, whole, nil, err
}

// beginRings opens rings on a machine that has the fleet code alone.
func beginRings(f conn.FleetFiles, parts [][]byte) (*certs.Chain, error) {
	b, err := conn.ReadSmall(f.Code())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("this machine knows no fleet %q", f.Name), Next: "hostler fleet request-owner CODE"}
	}
	if err != nil {
		return nil, err
	}
	code, err := enrol.ParseFleetCode(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, err
	}
	return certs.OpenChain(code.Pin, parts...)
}

// signPending shows a ring and adds a signature to it.
func (a *commands) signPending(f conn.FleetFiles, chain *certs.Chain, raw []byte, out string, yes bool) error {
	p, err := chain.Pending(raw)
	if err != nil {
		return err
	}
	for _, line := range differences(chain.Ring(), p.Ring) {
		a.Say("  %s", line)
	}
	if err := a.Confirm(yes, fmt.Sprintf("Sign ring %d of fleet %s?", p.Ring.Number, f.Name)); err != nil {
		return err
	}
	owner, err := f.Owner()
	if err != nil {
		return err
	}
	signed, err := certs.AddSignature(raw, owner)
	if err != nil {
		return err
	}
	return a.handOn(f, chain, signed, out)
}

// differences tells what one ring changes of another, a line each.
func differences(old, next certs.Ring) []string {
	var lines []string
	if old.Threshold != next.Threshold {
		lines = append(lines, fmt.Sprintf("threshold %d → %d", old.Threshold, next.Threshold))
	}
	for _, k := range next.Reinstated {
		lines = append(lines, "revocations of key "+k.String()+" are void")
	}
	was, is := members(old), members(next)
	for _, m := range was {
		if !slices.Contains(is, m) {
			lines = append(lines, "− "+m)
		}
	}
	for _, m := range is {
		if !slices.Contains(was, m) {
			lines = append(lines, "+ "+m)
		}
	}
	return lines
}

// members lists who is in a ring, for people. With the fingerprint of a key, which
// is that of its primary one, stands what it says of its others, and with that of a
// coordinator its TLS authority: either lets in who has it.
func members(r certs.Ring) []string {
	var all []string
	add := func(role, person string, key []byte, more string) {
		if k, err := certs.ParsePublicKey(key); err == nil {
			all = append(all, strings.TrimSpace(role+" "+person)+" "+k.Key().String()+", whole key "+protocol.Sum(key).String()+more)
		}
	}
	for _, o := range r.Owners {
		add("owner", o.Person, o.Key, "")
	}
	for _, c := range r.Coordinators {
		add("coordinator", "", c.Key, ", TLS authority "+protocol.Sum(c.TLSCA).String())
	}
	for _, p := range r.People {
		for _, k := range p.Keys {
			add("approver", p.Person, k, "")
		}
	}
	for _, k := range r.Releases {
		add("release key", k.Name, k.Key, "")
	}
	return all
}

// publishSize is how many bytes of rings one request takes to the coordinator,
// unless one ring alone is larger.
const publishSize = 40 << 10

func (a *commands) ringPublishCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "publish", Short: "Send the rings of this machine to the coordinator", Args: term.NoArgs,
		Long: `Sends the coordinator the rings that it lacks. They are in force at once, and the
coordinator sends them to its hosts. A coordinator that the newest ring no longer
names then ends, so this command asks before it sends it such a ring.`,
		Example: "  hostler fleet ring publish",
	}
	var yes bool
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	fleet := a.FleetFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f, chain, err := a.ChooseFleet(*fleet)
		if err != nil {
			return err
		}
		r, err := a.Coordinator()
		if err != nil {
			return err
		}
		var s api.Status
		if err := r.Get(cmd.Context(), "/v1/status", nil, &s); err != nil {
			return term.Cannot("publish the rings", err)
		}
		if next := chain.Ring(); next.Number > s.Ring && !slices.Contains(coordinatorKeys(next), s.Key) {
			if err := a.Confirm(yes, fmt.Sprintf("Ring %d does not name the coordinator that is to take it: it will end. Publish?", next.Number)); err != nil {
				return err
			}
		}
		number, err := publish(cmd.Context(), r, chain, s.Ring)
		if err != nil {
			return term.Cannot("publish the rings", err)
		}
		a.Say("The coordinator holds ring %d of fleet %s.", number, f.Name)
		return nil
	}
	return cmd
}

// publish sends a coordinator the rings after the one that it holds, and returns the
// number of the one that it holds then.
func publish(ctx context.Context, r *conn.Remote, chain *certs.Chain, number uint64) (uint64, error) {
	for {
		var batch [][]byte
		size := 0
		for _, raw := range chain.Rings() {
			ring, err := conn.RingOf(raw)
			if err != nil {
				return number, err
			}
			if ring.Number <= number {
				continue
			}
			if len(batch) > 0 && size+len(raw) > publishSize {
				break
			}
			batch, size = append(batch, raw), size+len(raw)
		}
		if len(batch) == 0 {
			return number, nil
		}
		var held api.Ring
		if err := r.Post(ctx, "/v1/rings", nil, api.Rings{Rings: bytes.Join(batch, []byte("\n"))}, &held); err != nil {
			return number, err
		}
		if held.Number <= number {
			return number, fmt.Errorf("the coordinator took ring %d and holds ring %d", chain.Ring().Number, held.Number)
		}
		number = held.Number
	}
}

func (a *commands) requestOwnerCommand() *cobra.Command {
	var person string
	cmd := &cobra.Command{
		Use: "request-owner CODE", Short: "Make the key of a new owner, and a request to be added", Args: term.Exactly(1),
		Long: `Makes the key of an owner of the fleet of that code on this machine, and prints
the request that hostler fleet ring add-owner takes on the machine of an owner.
CODE is what hostler fleet show prints there. Run again it prints the same
request.`,
		Example: "  hostler fleet request-owner hf1_… --person bob",
	}
	cmd.Flags().StringVar(&person, "person", "", "name of the owner, as shown in the ring")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if person == "" {
			return term.Usage("add --person NAME", "--person is missing")
		}
		code, err := enrol.ParseFleetCode(args[0])
		if err != nil {
			return term.Usage("hostler fleet show", "%s", err)
		}
		request, err := a.requestOwner(code, person)
		if err != nil {
			return term.Cannot("make the key of an owner", err)
		}
		fmt.Fprintf(a.Out, "request: %s\n", request)
		a.Say("Next, on the machine of an owner: hostler fleet ring add-owner REQUEST --out FILE")
		return nil
	}
	return cmd
}

func (a *commands) requestOwner(code enrol.FleetCode, person string) (string, error) {
	f, err := a.FleetFiles(string(code.Name))
	if err != nil {
		return "", err
	}
	if old, err := f.Load(); err == nil && old.Ring().Fleet != code.Fleet {
		return "", &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("this machine knows another fleet %q", f.Name), Next: "hostler fleet show --fleet " + string(f.Name)}
	}
	owner, err := makeOwner(f, person)
	if err != nil {
		return "", err
	}
	if err := conn.ReplaceFile(f.Code(), []byte(code.Encode()+"\n"), 0o600); err != nil {
		return "", err
	}
	a.Say("The owner's key is %s. Keep a copy of it in a safe place.", f.OwnerKey())
	return enrol.OwnerRequest{Fleet: code.Fleet, Person: person, Key: owner.Public()}.Encode()
}
