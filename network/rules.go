package network

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/failpoint"
)

// tableName is the one table of the kernel's packet filter that is written. All rules of
// it bear in their comment whose they are, so that several agents can share it.
const tableName = "hostler"

// Port is a port of this host that leads to a container.
type Port struct {
	Owner           string // id of the container
	Protocol        string // tcp or udp
	Host, Container uint16
	Address         netip.Addr // of the container
	Bridge          string     // that the container is attached to
}

// Subnet is a network of containers.
type Subnet struct {
	Bridge  string
	Network netip.Prefix // of IPv4
	// Network6 is that of IPv6; zero for none.
	Network6 netip.Prefix
	// Isolated keeps what goes beyond the bridge from it, in both directions. No port leads
	// there.
	Isolated bool
	// NAT has the containers reach other machines by the address of the host.
	NAT bool
	// Names are the addresses of the host on the bridge at which a server of names answers,
	// each with the length of its network. Only containers of that network may ask it.
	Names []netip.Prefix
}

// Rules are all that one owner wants of the packet filter.
type Rules struct {
	// Mark is whose rules they are: a word. Rules with another mark are left alone.
	Mark    string
	Subnets []Subnet
	Ports   []Port
	// Partial tells that more is wanted than is known here: rules of the mark that are not
	// wanted by it stay.
	Partial bool
	// Found remembers between calls that all was as it should be, so that the rules are not
	// read again before somebody has changed any. nil: they are read each time.
	Found *Found
}

// ErrNotIsolated: the rules that isolate a network could not be written. Bridges of isolated
// networks that lack theirs are switched off.
var ErrNotIsolated = errors.New("networks are not isolated")

// Rule is a rule of the packet filter that bears a mark of Hostler.
type Rule struct {
	Chain string
	Text  string // its comment, without the mark
	Owner string // id of the container; empty if it is of a whole network
}

// The chains, by what they are for.
const (
	chainGuard    = "guard"       // nothing of the host's loopback is reached from a bridge
	chainIncoming = "prerouting"  // ports, from elsewhere
	chainLocal    = "output"      // ports, from the host itself
	chainSource   = "postrouting" // answers find their way back
	chainForward  = "forward"     // of a container, no more is reached than its ports
	chainInput    = "input"       // servers of names are asked by their containers alone
)

// chains are all of them. It is never written.
var chains = []struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority *nftables.ChainPriority
}{
	{chainGuard, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw},
	{chainIncoming, nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest},
	{chainLocal, nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest},
	{chainSource, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource},
	{chainForward, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter},
	{chainInput, nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter},
}

// wanted is a rule as it should be. Its text says all that it depends on: rules with the
// same text do the same.
type wanted struct {
	chain, text string
	exprs       []expr.Any
}

// Apply makes the rules that are missing and removes those of the mark that are not
// wanted any more, all of it at once. What is as it should be is not touched, so that it
// may be called at any time. While there is a port or a network with NAT, the host
// forwards packets. What is wrong with one network does not keep the others from what they
// want. An isolated network is never left without its rules: if they cannot be written, its
// bridge is switched off, until they can, and the error matches ErrNotIsolated.
func Apply(r Rules) error {
	if err := apply(r); err != nil {
		return fmt.Errorf("rules of the packet filter: %w", explain(err))
	}
	return nil
}

func apply(r Rules) error {
	all := r.wanted()
	err := r.write(all)
	if err != nil {
		err = errors.Join(err, r.isolate())
	} else if len(all) > 0 {
		// Only behind the rules: they keep containers from the host's loopback.
		err = r.forward()
	}
	if errors.Is(err, ErrNotIsolated) {
		return err
	}
	return errors.Join(err, r.switchOn())
}

// write has the packet filter hold the rules.
func (r Rules) write(all []wanted) error {
	now, known := r.now(all)
	if known {
		return nil
	}
	c, err := nftables.New()
	if err != nil {
		return err
	}
	have, err := list(c)
	switch {
	case err != nil && len(all) == 0:
		return nil // there is no packet filter, or none that this process may ask: it has no rules of ours
	case err != nil:
		return err
	}
	foreign := false
	missing := make(map[string]wanted, len(all))
	for _, w := range all {
		missing[w.chain+" "+w.text] = w
	}
	var surplus []*nftables.Rule
	var unguarded []string // bridges that lose the rule which keeps containers from the loopback
	for _, h := range have {
		key := h.rule.Chain + " " + h.rule.Text
		_, is := missing[key]
		switch {
		case h.mark != r.Mark:
			foreign = true
		case is:
			delete(missing, key)
		default:
			surplus = append(surplus, h.handle)
			if bridge, ok := strings.CutSuffix(h.rule.Text, guarded); ok && h.rule.Chain == chainGuard {
				unguarded = append(unguarded, bridge)
			}
		}
	}
	if r.Partial {
		surplus, unguarded, foreign = nil, nil, true
	}
	if len(missing)+len(surplus) == 0 {
		r.found(now)
		return nil
	}
	for _, bridge := range unguarded {
		if err := setting("conf/"+bridge+"/route_localnet", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	failpoint.Before(failpoint.PortsApplied)
	if len(all) == 0 && !foreign {
		c.DelTable(table)
	} else if err := edit(c, table, r.Mark, missing, surplus); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("writing table %s: %w", tableName, err)
	}
	failpoint.After(failpoint.PortsApplied)
	return nil
}

// guarded ends the text of the rule that keeps containers of a bridge from the loopback of
// the host.
const guarded = " reaches no loopback"

// edit puts what is to be changed into the transaction.
func edit(c *nftables.Conn, table *nftables.Table, mark string, add map[string]wanted, remove []*nftables.Rule) error {
	c.AddTable(table)
	made := make(map[string]*nftables.Chain, len(chains))
	for _, ch := range chains {
		if !slices.ContainsFunc(slices.Collect(maps.Values(add)), func(w wanted) bool { return w.chain == ch.name }) {
			continue // a chain that cannot be made holds up no rule of another
		}
		made[ch.name] = c.AddChain(&nftables.Chain{Name: ch.name, Table: table, Type: ch.kind, Hooknum: ch.hook, Priority: ch.priority})
	}
	for _, rule := range remove {
		if err := c.DelRule(rule); err != nil {
			return err
		}
	}
	for _, w := range add {
		c.AddRule(&nftables.Rule{Table: table, Chain: made[w.chain], Exprs: w.exprs, UserData: comment(mark, w.text)})
	}
	return nil
}

// wanted returns each rule.
func (r Rules) wanted() (all []wanted) {
	with := func(chain, text string, exprs ...[]expr.Any) {
		all = append(all, wanted{chain, text, slices.Concat(exprs...)})
	}
	for _, s := range r.Subnets {
		all = append(all, s.asked()...)
		ported := slices.ContainsFunc(r.Ports, func(p Port) bool { return p.Bridge == s.Bridge })
		if s.Isolated {
			with(chainForward, s.Bridge+leadsNowhere, iface(expr.MetaKeyIIFNAME, s.Bridge, expr.CmpOpEq), iface(expr.MetaKeyOIFNAME, s.Bridge, expr.CmpOpNeq), verdict(expr.VerdictDrop))
			with(chainForward, s.Bridge+notReached, iface(expr.MetaKeyOIFNAME, s.Bridge, expr.CmpOpEq), iface(expr.MetaKeyIIFNAME, s.Bridge, expr.CmpOpNeq), verdict(expr.VerdictDrop))
			continue
		}
		if !ported && !s.NAT {
			continue
		}
		with(chainGuard, s.Bridge+guarded, iface(expr.MetaKeyIIFNAME, s.Bridge, expr.CmpOpEq), toNetwork(loopback), verdict(expr.VerdictDrop))
		with(chainForward, s.Bridge+" is reached by ports alone",
			iface(expr.MetaKeyOIFNAME, s.Bridge, expr.CmpOpEq), iface(expr.MetaKeyIIFNAME, s.Bridge, expr.CmpOpNeq),
			tracked(expr.CtKeySTATE, ctNew, true), tracked(expr.CtKeySTATUS, ctDNAT, false), verdict(expr.VerdictDrop))
		with(chainSource, s.Bridge+" answers the host", fromNetwork(loopback), iface(expr.MetaKeyOIFNAME, s.Bridge, expr.CmpOpEq), masquerade())
		for _, net := range []netip.Prefix{s.Network.Masked(), s.Network6.Masked()} {
			if !net.IsValid() {
				continue
			}
			with(chainSource, fmt.Sprintf("%s %s answers itself", s.Bridge, net),
				tracked(expr.CtKeySTATUS, ctDNAT, true), fromNetwork(net), toNetwork(net), masquerade())
			if s.NAT {
				with(chainSource, fmt.Sprintf("%s %s goes out", s.Bridge, net), fromNetwork(net), iface(expr.MetaKeyOIFNAME, s.Bridge, expr.CmpOpNeq), masquerade())
			}
		}
	}
	for _, p := range r.Ports {
		if slices.ContainsFunc(r.Subnets, func(s Subnet) bool { return s.Isolated && s.Bridge == p.Bridge }) {
			continue
		}
		text := fmt.Sprintf("port %s %d:%d/%s %s", p.Owner, p.Host, p.Container, p.Protocol, p.Address)
		but, of := r.but(p)
		text += of
		to := slices.Concat(toThisHost(p.Address), but, toPort(p.Protocol, p.Host), destinationNAT(p.Address, p.Container))
		with(chainIncoming, text, to)
		with(chainLocal, text, to)
	}
	return all
}

// asked are the rules that keep others than the containers from the server of names. What
// comes by the bridge from an address of another network is of another: the bridge may be
// connected to machines elsewhere.
func (s Subnet) asked() (all []wanted) {
	for _, p := range s.Names {
		to := netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
		for _, protocol := range []string{"udp", "tcp"} {
			asks := slices.Concat(toNetwork(to), toPort(protocol, namesPort))
			all = append(all,
				wanted{chainInput, fmt.Sprintf("%s %s is asked for names by this bridge alone, %s", s.Bridge, p.Addr(), protocol),
					slices.Concat(iface(expr.MetaKeyIIFNAME, s.Bridge, expr.CmpOpNeq), asks, verdict(expr.VerdictDrop))},
				wanted{chainInput, fmt.Sprintf("%s %s is asked for names by %s alone, %s", s.Bridge, p.Addr(), p.Masked(), protocol),
					slices.Concat(outside(p), asks, verdict(expr.VerdictDrop))})
		}
	}
	return all
}

// Asked reports whether the rules are there that keep others from servers of names, though not
// all that is wanted could be applied.
func Asked(r Rules) bool {
	have, err := Marked(r.Mark)
	for _, s := range r.Subnets {
		for _, w := range s.asked() {
			if err != nil || !slices.Contains(have, Rule{Chain: w.chain, Text: w.text}) {
				return false
			}
		}
	}
	return true
}

// namesPort is where servers of names listen.
const namesPort = 53

// but matches packets that do not go to a server of names, if the port is that of names, and
// says so: a question for names is not sent to a container.
func (r Rules) but(p Port) (exprs []expr.Any, text string) {
	if p.Host != namesPort {
		return nil, ""
	}
	for _, s := range r.Subnets {
		for _, at := range s.Names {
			if at.Addr().Is4() == p.Address.Is4() {
				one := toNetwork(netip.PrefixFrom(at.Addr(), at.Addr().BitLen()))
				one[len(one)-1].(*expr.Cmp).Op = expr.CmpOpNeq
				exprs, text = append(exprs, one...), text+" but at "+at.Addr().String()
			}
		}
	}
	return exprs, text
}

// forward has the kernel forward packets, if a port or NAT needs that, and those of the host's loopback to the
// bridges that have ports. A bridge that is not there yet is prepared when it is.
func (r Rules) forward() error {
	ported := func(s Subnet) bool {
		return slices.ContainsFunc(r.Ports, func(p Port) bool { return p.Bridge == s.Bridge })
	}
	forwards := func(s Subnet) bool { return !s.Isolated && (s.NAT || ported(s)) }
	if !slices.ContainsFunc(r.Subnets, forwards) {
		return nil
	}
	if err := setting("ip_forward", "1"); err != nil {
		return err
	}
	if slices.ContainsFunc(r.Subnets, func(s Subnet) bool { return forwards(s) && s.Network6.IsValid() }) {
		if err := forward6(); err != nil {
			return err
		}
	}
	var failed []error
	for _, s := range r.Subnets {
		if s.Isolated || !ported(s) {
			continue
		}
		err := setting("conf/"+s.Bridge+"/route_localnet", "1")
		if err == nil || errors.Is(err, os.ErrNotExist) {
			err = hairpin(s.Bridge)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("bridge %q: %w", s.Bridge, err))
		}
	}
	return errors.Join(failed...)
}

// hairpin lets containers of a bridge reach themselves by a port of the host. Where
// bridged packets pass the packet filter (br_netfilter), the bridge itself sends them
// back, and does so only on cables that are told to.
func hairpin(name string) error {
	master, err := bridge(name)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Type() != "veth" || l.Attrs().MasterIndex != master.Attrs().Index {
			continue
		}
		if info, err := netlink.LinkGetProtinfo(l); err == nil && info.Hairpin {
			continue
		}
		if err := netlink.LinkSetHairpin(l, true); err != nil && !errors.Is(err, unix.ENODEV) { // its container ends
			return err
		}
	}
	return nil
}

// forward6 has the kernel forward packets of IPv6. A host that does would take no addresses
// and routes from routers any more: interfaces that took them go on with that.
func forward6() error {
	const conf = "/proc/sys/net/ipv6/conf/"
	takes, err := filepath.Glob(conf + "*/accept_ra")
	if err != nil {
		return err
	}
	for _, path := range takes {
		if was, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(was)) == "1" {
			if err := os.WriteFile(path, []byte("2"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return write(conf+"all/forwarding", "1")
}

// setting gives a setting of IPv4 in the kernel a value, unless it has it.
func setting(name, value string) error { return write("/proc/sys/net/ipv4/"+name, value) }

func write(path, value string) error {
	was, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(was)) == value {
		return err
	}
	return os.WriteFile(path, []byte(value), 0)
}

// markedRule is a rule of the packet filter with a mark, which names its owner.
type markedRule struct {
	rule   Rule
	mark   string
	handle *nftables.Rule
}

// list returns the rules of the table, also those that bear no mark.
func list(c *nftables.Conn) (all []markedRule, err error) {
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("listing tables: %w", err)
	}
	at := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == tableName })
	if at < 0 {
		return nil, nil
	}
	there, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("listing chains: %w", err)
	}
	for _, ch := range there {
		if ch.Table.Name != tableName {
			continue
		}
		rules, err := c.GetRules(tables[at], ch)
		if err != nil {
			return nil, fmt.Errorf("listing rules of chain %s: %w", ch.Name, err)
		}
		for _, rule := range rules {
			rule.Table, rule.Chain = tables[at], ch
			k := markedRule{rule: Rule{Chain: ch.Name}, handle: rule}
			k.mark, k.rule.Text = uncomment(rule.UserData)
			if f := strings.Fields(k.rule.Text); len(f) > 1 && f[0] == "port" {
				k.rule.Owner = f[1]
			}
			all = append(all, k)
		}
	}
	return all, nil
}

// Marked returns the rules that bear a mark, sorted.
func Marked(mark string) ([]Rule, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, err
	}
	all, err := list(c)
	if err != nil {
		return nil, fmt.Errorf("rules of the packet filter: %w", explain(err))
	}
	var out []Rule
	for _, k := range all {
		if k.mark == mark {
			out = append(out, k.rule)
		}
	}
	slices.SortFunc(out, func(a, b Rule) int { return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Text, b.Text)) })
	return out, nil
}

// Unmark removes rules of a mark, as [Marked] returns them. One that is gone is removed.
func Unmark(mark string, gone []Rule) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	all, err := list(c)
	if err != nil {
		return fmt.Errorf("rules of the packet filter: %w", explain(err))
	}
	for _, k := range all {
		if k.mark == mark && slices.Contains(gone, k.rule) {
			if err := c.DelRule(k.handle); err != nil {
				return err
			}
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("rules of the packet filter: removing: %w", explain(err))
	}
	return nil
}

// commentPrefix begins the comments of our rules; the mark follows.
const commentPrefix = "hostler "

func comment(mark, text string) []byte {
	return userdata.Append(nil, userdata.TypeComment, append([]byte(commentPrefix+mark+" "+text), 0))
}

// uncomment reads a comment; both are empty if it is none of Hostler.
func uncomment(data []byte) (mark, text string) {
	for len(data) >= 2 && len(data) >= 2+int(data[1]) {
		value := data[2 : 2+int(data[1])]
		if userdata.Type(data[0]) == userdata.TypeComment {
			rest, ours := strings.CutPrefix(strings.TrimRight(string(value), "\x00"), commentPrefix)
			if !ours {
				return "", ""
			}
			mark, text, _ = strings.Cut(rest, " ")
			return mark, text
		}
		data = data[2+int(data[1]):]
	}
	return "", ""
}
