// Package fleet makes fleets and changes their rings: hostler fleet.
package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/keyring"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

type commands struct {
	*conn.Env
	keys *keyring.Store
}

// Command returns hostler fleet.
func Command(e *conn.Env, keys *keyring.Store) *cobra.Command {
	a := &commands{e, keys}
	ring := term.Group("ring", "The document that says who may do what",
		a.ringListCommand(), a.ringShowCommand(), a.addCoordinatorCommand(), a.replaceCoordinatorCommand(), a.removeCoordinatorCommand(), a.reinstateCommand(),
		a.addOwnerCommand(), a.removeOwnerCommand(), a.addApproverCommand(), a.removeApproverCommand(), a.addReleaseKeyCommand(), a.removeReleaseKeyCommand(), a.setThresholdCommand(), a.ringSignCommand(), a.ringPublishCommand())
	return term.Group("fleet", "Owner keys and rings: who may do what", a.fleetInitCommand(), a.fleetShowCommand(), a.requestOwnerCommand(), ring)
}

func (a *commands) fleetInitCommand() *cobra.Command {
	var person, coordinator string
	cmd := &cobra.Command{
		Use: "init NAME", Short: "Make a fleet: an owner's key and the first ring", Args: term.Exactly(1),
		Long: `Makes the key of an owner beside the configuration of this program, signs the
first ring with it, and prints the fleet code that hostler-coordinator init takes.
Keep the key safe: its holder decides who may do what, and a lost key cannot be
made again.

With --coordinator DIR it also makes a coordinator on this machine, with its
state in DIR, by running hostler-coordinator, and prints the first API token.`,
		Example: `  hostler fleet init demo
  hostler fleet init demo --coordinator /var/lib/hostler/coordinator`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.FleetFiles(args[0])
			if err != nil {
				return err
			}
			chain, err := a.newFleet(f, person)
			if err != nil {
				return term.Cannot("make fleet "+args[0], err)
			}
			a.Say("The owner's key is %s. Keep a copy of it in a safe place.", f.OwnerKey())
			code := chain.Code().Encode()
			fmt.Fprintf(a.Out, "fleet: %s\nid: %s\ncode: %s\n", f.Name, chain.Ring().Fleet, code)
			if coordinator == "" {
				a.Say("Next, on the coordinator's machine: hostler-coordinator init --fleet CODE")
				return nil
			}
			return a.initCoordinator(cmd.Context(), f, chain, coordinator)
		},
	}
	cmd.Flags().StringVar(&person, "person", "owner", "name of the owner, as shown in the ring")
	cmd.Flags().StringVar(&coordinator, "coordinator", "", "also make a coordinator, with its state in this directory")
	return cmd
}

// newFleet makes the owner's key and the first ring. A fleet that is there is
// never touched.
func (a *commands) newFleet(f conn.FleetFiles, person string) (*certs.Chain, error) {
	if _, err := os.Lstat(f.Rings()); err == nil {
		return nil, &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("fleet %q exists already", f.Name), Next: "hostler fleet show --fleet " + string(f.Name)}
	}
	owner, err := makeOwner(f, person)
	if err != nil {
		return nil, err
	}
	var id protocol.FleetID
	a.Random(id[:])
	ring, err := certs.NewFleet(id, f.Name, person, owner.PublicKey())
	if err != nil {
		return nil, err
	}
	raw, err := certs.SignRing(ring, owner)
	if err != nil {
		return nil, err
	}
	body, err := ring.Body()
	if err != nil {
		return nil, err
	}
	chain, err := certs.OpenChain(enrol.PinOf(1, protocol.Sum(body)), raw)
	if err != nil {
		return nil, err
	}
	return chain, f.Save(chain)
}

// makeOwner makes the owner's key. The key of a run that broke off is as good.
func makeOwner(f conn.FleetFiles, person string) (*certs.Identity, error) {
	owner, err := certs.CreateIdentity(f.OwnerKey(), "hostler fleet "+string(f.Name)+" owner "+person)
	if errors.Is(err, fs.ErrExist) {
		return certs.LoadIdentity(f.OwnerKey())
	}
	return owner, err
}

// fleetInfo is a fleet as this machine knows it.
type fleetInfo struct {
	Name         string   `json:"name"`
	ID           string   `json:"id"`
	Ring         uint64   `json:"ring"`
	Code         string   `json:"code"`
	Owners       []string `json:"owners"`
	Threshold    int      `json:"threshold"`
	Coordinators []string `json:"coordinators"` // fingerprints
	People       []string `json:"people"`
	OwnerKey     string   `json:"owner_key,omitempty"` // where it is, on the machine of an owner
}

func fleetNoun() show.Noun[fleetInfo] {
	return show.NounOf[fleetInfo]("name", "name id ring owners~ threshold coordinators~ people~ code owner_key++", nil)
}

func (a *commands) fleetShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show a fleet", Args: term.NoArgs,
		Long:    "Shows the newest ring that this machine keeps, without asking the coordinator.",
		Example: "  hostler fleet show\n  hostler fleet show -o template={{.code}}",
	}
	fleet, v := a.FleetFlag(cmd), show.ShowFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return show.Item(cmd.Context(), a.UI, v, fleetNoun(), func(context.Context) (fleetInfo, error) {
			f, chain, err := a.ChooseFleet(*fleet)
			if err != nil {
				return fleetInfo{}, err
			}
			return infoOf(f, chain), nil
		})
	}
	return cmd
}

func infoOf(f conn.FleetFiles, chain *certs.Chain) fleetInfo {
	r := chain.Ring()
	info := fleetInfo{Name: string(r.Name), ID: r.Fleet.String(), Ring: r.Number, Code: chain.Code().Encode(), Threshold: r.Threshold, Owners: []string{}, People: []string{}, Coordinators: coordinatorKeys(r)}
	for _, o := range r.Owners {
		info.Owners = append(info.Owners, o.Person)
	}
	for _, p := range r.People {
		info.People = append(info.People, p.Person)
	}
	if _, err := os.Lstat(f.OwnerKey()); err == nil {
		info.OwnerKey = f.OwnerKey()
	}
	return info
}

func coordinatorKeys(r certs.Ring) []string {
	keys := []string{}
	for _, c := range r.Coordinators {
		if k, err := certs.ParsePublicKey(c.Key); err == nil {
			keys = append(keys, k.Key().String())
		}
	}
	return keys
}

// ringInfo is a ring as a line of a list.
type ringInfo struct {
	Number       uint64   `json:"number"`
	Digest       string   `json:"digest"`
	Owners       int      `json:"owners"`
	Threshold    int      `json:"threshold"`
	Coordinators []string `json:"coordinators"`
	People       int      `json:"people"`
	SignedBy     []string `json:"signed_by"`
}

func ringNoun() show.Noun[ringInfo] {
	return show.NounOf("number", "number owners~ threshold coordinators~ people~ signed_by~ digest+", show.Cells[ringInfo]{
		"coordinators": func(r ringInfo) any { return len(r.Coordinators) },
	})
}

func (a *commands) ringListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List the rings on this machine", Args: term.NoArgs,
		Example: "  hostler fleet ring ls",
	}
	fleet, v := a.FleetFlag(cmd), show.ListFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return show.Items(cmd.Context(), a.UI, v, ringNoun(), func(context.Context) ([]ringInfo, error) {
			_, chain, err := a.ChooseFleet(*fleet)
			if err != nil {
				return nil, err
			}
			all, err := ringsOf(chain)
			return all, term.Cannot("read the rings", err)
		})
	}
	return cmd
}

func ringsOf(chain *certs.Chain) (all []ringInfo, err error) {
	for _, raw := range chain.Rings() {
		r, err := conn.RingOf(raw)
		if err != nil {
			return nil, err
		}
		d, _ := chain.Digest(r.Number)
		info := ringInfo{Number: r.Number, Digest: d.String(), Owners: len(r.Owners), Threshold: r.Threshold, Coordinators: coordinatorKeys(r), People: len(r.People)}
		for line := range bytes.SplitSeq(raw, []byte("\n")) {
			if env, err := protocol.Split(line); err == nil {
				info.SignedBy = append(info.SignedBy, env.Key.String())
			}
		}
		all = append(all, info)
	}
	return all, nil
}

func (a *commands) ringShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [NUMBER]", Short: "Show a ring, by default the one in force", Args: term.AtMost(1),
		Long:    "Shows a ring as it was signed. Keys are OpenPGP certificates, authorities X.509, both in base64 with -o json.",
		Example: "  hostler fleet ring show\n  hostler fleet ring show -o json |\n    jq -r '.coordinators[0].key' | base64 -d | gpg --import",
	}
	fleet, v := a.FleetFlag(cmd), show.ShowFlags(cmd)
	find := func(args []string) (certs.Ring, error) {
		f, chain, err := a.ChooseFleet(*fleet)
		if err != nil {
			return certs.Ring{}, err
		}
		number := fmt.Sprint(chain.Ring().Number)
		if len(args) == 1 {
			number = args[0]
		}
		for _, raw := range chain.Rings() {
			r, err := conn.RingOf(raw)
			if err != nil || fmt.Sprint(r.Number) == number {
				return r, term.Cannot("read the rings", err)
			}
		}
		return certs.Ring{}, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("this machine keeps no ring %q of fleet %s", number, f.Name), Next: "hostler fleet ring ls"}
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return show.Item(cmd.Context(), a.UI, v, wholeRingNoun(), func(context.Context) (certs.Ring, error) { return find(args) })
	}
	return cmd
}

func wholeRingNoun() show.Noun[certs.Ring] {
	keyed := func(person string, raw []byte) string {
		k, err := certs.ParsePublicKey(raw)
		if err != nil {
			return person
		}
		return strings.TrimSpace(person + " " + k.Key().String())
	}
	return show.NounOf("number", "number fleet:name id:fleet prev threshold owners~ coordinators~ people~", show.Cells[certs.Ring]{
		"owners": func(r certs.Ring) any {
			var all []string
			for _, o := range r.Owners {
				all = append(all, keyed(o.Person, o.Key))
			}
			return all
		},
		"coordinators": func(r certs.Ring) any { return coordinatorKeys(r) },
		"people": func(r certs.Ring) any {
			var all []string
			for _, p := range r.People {
				for _, k := range p.Keys {
					all = append(all, keyed(p.Person, k))
				}
			}
			return all
		},
	})
}
