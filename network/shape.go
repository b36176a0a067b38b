package network

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrNoCable: the process has no interface that a cable leads to.
var ErrNoCable = errors.New("no interface")

// shaperPrefix begins the names of the devices that hold back what containers send. The
// number of the cable follows: it is given to no other device while this host is up.
const shaperPrefix = "hosti"

// Bounds of what is let through at once and of what waits, in bytes and in parts of a
// second.
const (
	leastBurst = 32 << 10
	burstPart  = 100 // the burst is what passes in 10 ms
	queuePart  = 10  // what waits longer than 100 ms is dropped
)

// Shape limits what passes the cables of the namespace of a process, in each direction, to
// a rate in bits per second; 0 is no limit. The error matches ErrNoCable if it has none,
// and ErrUnsupported if this kernel cannot.
func Shape(pid int, rate int64) error {
	cables, err := cablesOf(pid)
	if err == nil && len(cables) == 0 && rate > 0 {
		err = ErrNoCable
	}
	for _, l := range cables {
		if err != nil {
			break
		}
		err = shape(l, rate)
	}
	if err != nil {
		return fmt.Errorf("limiting the network of process %d: %w", pid, explain(err))
	}
	return nil
}

// Shaped is the rate to which the cables of the namespace of a process are limited; 0 is
// no limit.
func Shaped(pid int) (rate int64, err error) {
	cables, err := cablesOf(pid)
	if err != nil {
		return 0, fmt.Errorf("looking at the network of process %d: %w", pid, err)
	}
	for _, l := range cables {
		r, err := rateOf(l)
		if err != nil {
			return 0, fmt.Errorf("reading the limit of cable %q: %w", l.Attrs().Name, err)
		}
		if r > rate {
			rate = r
		}
	}
	return rate, nil
}

// CanShape reports whether this kernel can limit what passes a cable. It tries that in a
// namespace of its own.
func CanShape() error {
	tried := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and it ends with the namespace
		tried <- tryShape()
	}()
	if err := <-tried; err != nil {
		return fmt.Errorf("limiting a network: %w", explain(err))
	}
	return nil
}

func tryShape() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "tried"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}); err != nil {
		return err
	}
	link, err := netlink.LinkByName("tried")
	if err != nil {
		return err
	}
	return shape(link, 1e6)
}

// cablesOf returns our ends of the cables that lead to the namespace of a process.
func cablesOf(pid int) ([]netlink.Link, error) {
	links, err := dump(netlink.LinkList) // and the kernel numbers the namespaces that cables lead to
	if err != nil {
		return nil, err
	}
	namespace, err := netlink.GetNetNsIdByPid(pid)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(links, func(l netlink.Link) bool {
		return l.Type() != "veth" || l.Attrs().NetNsID < 0 || l.Attrs().NetNsID != namespace
	}), nil
}

// shape limits one cable. What goes to the container waits at our end. What comes from it
// passes a device behind our end, and waits there: at the end of the container its root
// could take the limit away.
func shape(l netlink.Link, rate int64) error {
	if rate == 0 {
		return unshape(l)
	}
	index := l.Attrs().Index
	if err := netlink.QdiscReplace(bucket(index, rate)); err != nil {
		return fmt.Errorf("what cable %q takes: %w", l.Attrs().Name, err)
	}
	behind, err := shaper(index)
	if err == nil {
		err = netlink.QdiscReplace(bucket(behind, rate))
	}
	if err == nil {
		err = redirect(index, behind)
	}
	if err != nil {
		return fmt.Errorf("what cable %q gives: %w", l.Attrs().Name, err)
	}
	return nil
}

// bucket lets packets through at a rate.
func bucket(link int, rate int64) *netlink.Tbf {
	bytes := uint64(max(rate/8, 1))
	burst := uint32(min(max(bytes/burstPart, leastBurst), math.MaxInt32))
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       bytes, Limit: uint32(min(bytes/queuePart, math.MaxInt32)) + burst, Buffer: netlink.Xmittime(bytes, burst),
	}
}

// shaper returns the device behind a cable, which is made if it is missing.
func shaper(cable int) (int, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = shaperPrefix + strconv.Itoa(cable)
	if err := netlink.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
		return 0, err
	}
	link, err := netlink.LinkByName(attrs.Name)
	switch {
	case err != nil:
		return 0, err
	case link.Type() != "ifb":
		return 0, fmt.Errorf("device %q: %w: it is of type %s", attrs.Name, ErrForeign, link.Type())
	}
	return link.Attrs().Index, netlink.LinkSetUp(link)
}

// redirect has what comes by a cable pass a device.
func redirect(cable, by int) error {
	attrs := netlink.QdiscAttrs{LinkIndex: cable, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}
	if err := netlink.QdiscAdd(&netlink.Ingress{QdiscAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	there, err := dump(func() ([]netlink.Filter, error) { return redirects(cable) })
	if err != nil || slices.ContainsFunc(there, func(f netlink.Filter) bool { return leadsTo(f, by) }) {
		return err
	}
	return netlink.FilterAdd(&netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: cable, Parent: attrs.Handle, Priority: 1, Protocol: unix.ETH_P_ALL},
		Sel:         &netlink.TcU32Sel{Flags: netlink.TC_U32_TERMINAL, Nkeys: 1, Keys: []netlink.TcU32Key{{}}}, // all packets
		Actions:     []netlink.Action{netlink.NewMirredAction(by)},
	})
}

func redirects(cable int) ([]netlink.Filter, error) {
	link, err := netlink.LinkByIndex(cable)
	if err != nil {
		return nil, err
	}
	return netlink.FilterList(link, netlink.MakeHandle(0xffff, 0))
}

func leadsTo(f netlink.Filter, by int) bool {
	u, ok := f.(*netlink.U32)
	return ok && slices.ContainsFunc(u.Actions, func(a netlink.Action) bool {
		m, ok := a.(*netlink.MirredAction)
		return ok && m.Ifindex == by
	})
}

// unshape takes the limit of a cable away.
func unshape(l netlink.Link) error {
	all, err := dump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(l) })
	if err != nil {
		return err
	}
	for _, q := range all {
		if q.Type() != "tbf" && q.Type() != "ingress" {
			continue
		}
		if err := netlink.QdiscDel(q); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("cable %q: %w", l.Attrs().Name, err)
		}
	}
	return removeShaper(shaperPrefix + strconv.Itoa(l.Attrs().Index))
}

func removeShaper(name string) error {
	link, err := netlink.LinkByName(name)
	if missing(err) {
		return nil
	}
	if err == nil && link.Type() == "ifb" {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("device %q: removing: %w", name, err)
	}
	return nil
}

// rateOf is the rate of a cable in bits per second. It counts only if both directions have
// it.
func rateOf(l netlink.Link) (int64, error) {
	taken, err := bucketOf(l)
	if err != nil || taken == 0 {
		return 0, err
	}
	behind, err := netlink.LinkByName(shaperPrefix + strconv.Itoa(l.Attrs().Index))
	if missing(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	there, err := dump(func() ([]netlink.Filter, error) { return redirects(l.Attrs().Index) })
	if err != nil || !slices.ContainsFunc(there, func(f netlink.Filter) bool { return leadsTo(f, behind.Attrs().Index) }) {
		return 0, err
	}
	given, err := bucketOf(behind)
	if err != nil || given == 0 {
		return 0, err
	}
	return max(taken, given), nil
}

func bucketOf(l netlink.Link) (int64, error) {
	all, err := dump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(l) })
	for _, q := range all {
		if t, ok := q.(*netlink.Tbf); ok && t.Parent == netlink.HANDLE_ROOT {
			return int64(min(t.Rate, math.MaxInt64/8)) * 8, err
		}
	}
	return 0, err
}

// Shapers returns the devices that hold back what containers send and whose cable is gone:
// a cable ends with its container, and does not take them along.
func Shapers() (orphans []string, err error) {
	links, err := linksOf("ifb")
	if err != nil {
		return nil, err
	}
	links = slices.DeleteFunc(links, func(l netlink.Link) bool {
		return l.Type() != "ifb" || !strings.HasPrefix(l.Attrs().Name, shaperPrefix)
	})
	if len(links) == 0 {
		return nil, nil
	}
	cables, err := linksOf("veth") // later: a device of a cable that is made meanwhile is left alone
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		cable, err := strconv.Atoi(strings.TrimPrefix(l.Attrs().Name, shaperPrefix))
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(cables, func(o netlink.Link) bool { return o.Type() == "veth" && o.Attrs().Index == cable }) {
			orphans = append(orphans, l.Attrs().Name)
		}
	}
	return orphans, nil
}

// RemoveShaper removes a device that Shapers has returned; nil if it is gone.
func RemoveShaper(name string) error {
	if !strings.HasPrefix(name, shaperPrefix) {
		return fmt.Errorf("device %.40q: %w", name, ErrForeign)
	}
	return removeShaper(name)
}
