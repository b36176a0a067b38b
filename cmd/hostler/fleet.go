package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
)

func (a *app) fleetCommand() *cobra.Command {
	ring := group("ring", "The document that says who may do what",
		a.ringListCommand(), a.ringShowCommand(), a.addCoordinatorCommand(), a.replaceCoordinatorCommand(), a.removeCoordinatorCommand(),
		a.addOwnerCommand(), a.removeOwnerCommand(), a.addApproverCommand(), a.removeApproverCommand(), a.setThresholdCommand(), a.ringSignCommand(), a.ringPublishCommand())
	return group("fleet", "Owner keys and rings: who may do what", a.fleetInitCommand(), a.fleetShowCommand(), a.requestOwnerCommand(), ring)
}

// fleetFlag adds the option that names a fleet of this machine.
func (a *app) fleetFlag(cmd *cobra.Command) *string {
	name := cmd.Flags().String("fleet", "", "the fleet (default: that of the context, or the only one)")
	_ = cmd.RegisterFlagCompletionFunc("fleet", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		known, _ := a.knownFleets() // completion has nobody to tell
		return known, cobra.ShellCompDirectiveNoFileComp
	})
	return name
}

func (a *app) fleetInitCommand() *cobra.Command {
	var person, coordinator string
	cmd := &cobra.Command{
		Use: "init NAME", Short: "Make a fleet: an owner's key and the first ring", Args: exactly(1),
		Long: `Makes the key of an owner beside the configuration of this program, signs the
first ring with it, and prints the fleet code that hostler-coordinator init takes.
Keep the key: whoever has it decides who may do what, and nobody can make it
again.

With --coordinator DIR it also makes a coordinator on this machine, with its
state in DIR, by running hostler-coordinator, and prints the first API token.`,
		Example: `  hostler fleet init demo
  hostler fleet init demo --coordinator /var/lib/hostler/coordinator`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.fleetFiles(args[0])
			if err != nil {
				return err
			}
			chain, err := a.newFleet(f, person)
			if err != nil {
				return cannot("make fleet "+args[0], err)
			}
			a.say("The owner's key is %s. Keep a copy of it in a safe place.", f.ownerKey())
			code := chain.Code().Encode()
			fmt.Fprintf(a.out, "fleet: %s\nid: %s\ncode: %s\n", f.name, chain.Ring().Fleet, code)
			if coordinator == "" {
				a.say("Next, on the coordinator's machine: hostler-coordinator init --fleet CODE")
				return nil
			}
			return a.initCoordinator(cmd.Context(), f, chain, coordinator)
		},
	}
	cmd.Flags().StringVar(&person, "person", "owner", "name of the owner, which stands in every ring")
	cmd.Flags().StringVar(&coordinator, "coordinator", "", "make a coordinator too, with its state in this directory")
	return cmd
}

// newFleet makes the owner's key and the first ring. A fleet that is there is
// never touched.
func (a *app) newFleet(f fleetFiles, person string) (*certs.Chain, error) {
	if _, err := os.Lstat(f.rings()); err == nil {
		return nil, &failure{code: exitFailed, what: fmt.Sprintf("there is a fleet %q already", f.name), next: "hostler fleet show --fleet " + string(f.name)}
	}
	owner, err := certs.CreateIdentity(f.ownerKey(), "hostler fleet "+string(f.name)+" owner "+person)
	if errors.Is(err, fs.ErrExist) {
		// The ring was not written: the key of the run that broke off is as good.
		owner, err = certs.LoadIdentity(f.ownerKey())
	}
	if err != nil {
		return nil, err
	}
	var id protocol.FleetID
	a.random(id[:])
	ring, err := certs.NewFleet(id, f.name, person, owner.PublicKey())
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
	return chain, f.save(chain)
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

func fleetNoun() noun[fleetInfo] {
	return noun[fleetInfo]{
		name: func(f fleetInfo) string { return f.Name },
		columns: []column[fleetInfo]{
			{"name", inTable, func(f fleetInfo) any { return f.Name }},
			{"id", inTable, func(f fleetInfo) any { return f.ID }},
			{"ring", inTable, func(f fleetInfo) any { return f.Ring }},
			{"owners", inTable, func(f fleetInfo) any { return f.Owners }},
			{"threshold", inTable, func(f fleetInfo) any { return f.Threshold }},
			{"coordinators", inTable, func(f fleetInfo) any { return f.Coordinators }},
			{"people", inTable, func(f fleetInfo) any { return f.People }},
			{"code", inTable, func(f fleetInfo) any { return f.Code }},
			{"owner_key", inShow, func(f fleetInfo) any { return f.OwnerKey }},
		},
	}
}

func (a *app) fleetShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show a fleet as its ring says", Args: noArgs,
		Long:    "Shows what the newest ring says that this machine keeps. Nothing is asked of the coordinator.",
		Example: "  hostler fleet show\n  hostler fleet show -o template={{.code}}",
	}
	fleet, v := a.fleetFlag(cmd), formatFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f, chain, err := a.chooseFleet(*fleet)
		if err != nil {
			return err
		}
		r := chain.Ring()
		info := fleetInfo{Name: string(r.Name), ID: r.Fleet.String(), Ring: r.Number, Code: chain.Code().Encode(), Threshold: r.Threshold, Owners: []string{}, People: []string{}, Coordinators: coordinatorKeys(r)}
		for _, o := range r.Owners {
			info.Owners = append(info.Owners, o.Person)
		}
		for _, p := range r.People {
			info.People = append(info.People, p.Person)
		}
		if _, err := os.Lstat(f.ownerKey()); err == nil {
			info.OwnerKey = f.ownerKey()
		}
		return printAll(a, v, fleetNoun(), []fleetInfo{info})
	}
	return cmd
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

func ringNoun() noun[ringInfo] {
	return noun[ringInfo]{
		name: func(r ringInfo) string { return fmt.Sprint(r.Number) },
		columns: []column[ringInfo]{
			{"number", inTable, func(r ringInfo) any { return r.Number }},
			{"owners", inTable, func(r ringInfo) any { return r.Owners }},
			{"threshold", inTable, func(r ringInfo) any { return r.Threshold }},
			{"coordinators", inTable, func(r ringInfo) any { return len(r.Coordinators) }},
			{"people", inTable, func(r ringInfo) any { return r.People }},
			{"signed_by", inTable, func(r ringInfo) any { return r.SignedBy }},
			{"digest", inWide, func(r ringInfo) any { return r.Digest }},
		},
	}
}

func (a *app) ringListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List the rings that this machine keeps", Args: noArgs,
		Example: "  hostler fleet ring ls",
	}
	fleet, v := a.fleetFlag(cmd), formatFlags(cmd)
	v.one = false
	cmd.RunE = func(*cobra.Command, []string) error {
		_, chain, err := a.chooseFleet(*fleet)
		if err != nil {
			return err
		}
		var all []ringInfo
		for _, raw := range chain.Rings() {
			r, err := ringOf(raw)
			if err != nil {
				return cannot("read the rings", err)
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
		return printAll(a, v, ringNoun(), all)
	}
	return cmd
}

func (a *app) ringShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [NUMBER]", Short: "Show a ring, by default the one in force", Args: atMost(1),
		Long:    "Shows a ring as it was signed. Keys are OpenPGP certificates, authorities X.509, both in base64 with -o json.",
		Example: "  hostler fleet ring show\n  hostler fleet ring show -o json |\n    jq -r '.coordinators[0].key' | base64 -d | gpg --import",
	}
	fleet, v := a.fleetFlag(cmd), formatFlags(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		f, chain, err := a.chooseFleet(*fleet)
		if err != nil {
			return err
		}
		number := fmt.Sprint(chain.Ring().Number)
		if len(args) == 1 {
			number = args[0]
		}
		for _, raw := range chain.Rings() {
			r, err := ringOf(raw)
			if err != nil {
				return cannot("read the rings", err)
			}
			if fmt.Sprint(r.Number) == number {
				return printAll(a, v, wholeRingNoun(), []certs.Ring{r})
			}
		}
		return &failure{code: exitNotFound, what: fmt.Sprintf("this machine keeps no ring %q of fleet %s", number, f.name), next: "hostler fleet ring ls"}
	}
	return cmd
}

func wholeRingNoun() noun[certs.Ring] {
	keyed := func(person string, raw []byte) string {
		k, err := certs.ParsePublicKey(raw)
		if err != nil {
			return person
		}
		return strings.TrimSpace(person + " " + k.Key().String())
	}
	return noun[certs.Ring]{
		name: func(r certs.Ring) string { return fmt.Sprint(r.Number) },
		columns: []column[certs.Ring]{
			{"number", inTable, func(r certs.Ring) any { return r.Number }},
			{"fleet", inTable, func(r certs.Ring) any { return r.Name }},
			{"id", inTable, func(r certs.Ring) any { return r.Fleet }},
			{"prev", inTable, func(r certs.Ring) any { return r.Prev }},
			{"threshold", inTable, func(r certs.Ring) any { return r.Threshold }},
			{"owners", inTable, func(r certs.Ring) any {
				var all []string
				for _, o := range r.Owners {
					all = append(all, keyed(o.Person, o.Key))
				}
				return all
			}},
			{"coordinators", inTable, func(r certs.Ring) any { return coordinatorKeys(r) }},
			{"people", inTable, func(r certs.Ring) any {
				var all []string
				for _, p := range r.People {
					for _, k := range p.Keys {
						all = append(all, keyed(p.Person, k))
					}
				}
				return all
			}},
		},
	}
}
