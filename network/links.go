package network

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// linksOf lists the links of one kind, which an old kernel lists among the others.
func linksOf(kind string) ([]netlink.Link, error) {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, []byte(kind))
	return listLinks(func([]byte) bool { return true }, info)
}

// ownLinks lists the links of the host, but for its ends of containers' cables: there are as
// many of them as containers, and to take each apart is most of the work.
func ownLinks() ([]netlink.Link, error) {
	return listLinks(func(message []byte) bool { return !isContainerEnd(message) })
}

// listLinks lists those links whose messages are wanted.
func listLinks(wanted func(message []byte) bool, filters ...*nl.RtAttr) (links []netlink.Link, err error) {
	const skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	links, err = dump(func() (links []netlink.Link, broken error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
		for _, f := range filters {
			req.AddData(f)
		}
		err := req.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(message []byte) bool {
			if !wanted(message) {
				return true
			}
			var link netlink.Link
			if link, broken = netlink.LinkDeserialize(nil, message); broken == nil {
				links = append(links, link)
			}
			return broken == nil
		})
		if broken == nil {
			broken = err
		}
		return links, broken
	})
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	return links, nil
}

// isContainerEnd: a veth that is attached to a bridge here and ends in another
// network namespace.
func isContainerEnd(message []byte) bool {
	var veth, attached, away bool
	for kind, value := range attributes(message[min(len(message), unix.SizeofIfInfomsg):]) {
		switch kind {
		case unix.IFLA_MASTER:
			attached = true
		case unix.IFLA_LINK_NETNSID:
			away = len(value) == 4 && int32(binary.NativeEndian.Uint32(value)) >= 0
		case unix.IFLA_LINKINFO:
			for kind, value := range attributes(value) {
				veth = veth || kind == nl.IFLA_INFO_KIND && string(value) == "veth\x00"
			}
		}
	}
	return veth && attached && away
}

// attributes are those of a message, by their numbers, up to one that is not whole.
func attributes(b []byte) func(yield func(kind uint16, value []byte) bool) {
	const align = unix.NLMSG_ALIGNTO
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			size := int(binary.NativeEndian.Uint16(b))
			if size < unix.SizeofRtAttr || size > len(b) || !yield(binary.NativeEndian.Uint16(b[2:]), b[unix.SizeofRtAttr:size]) {
				return
			}
			b = b[min(len(b), (size+align-1)/align*align):]
		}
	}
}
