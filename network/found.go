package network

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Found is what was wanted when the packet filter had it already. One goroutine at a time may
// use it.
type Found struct {
	generation uint32 // of all rules of the packet filter; 0 if it is not known
	wanted     string
}

// now is what is wanted now, with the generation of the rules before they are read, and
// whether that was found already.
func (r Rules) now(all []wanted) (now Found, known bool) {
	if r.Found == nil {
		return now, false
	}
	var text strings.Builder
	fmt.Fprintln(&text, r.Mark, r.Partial)
	for _, w := range all {
		fmt.Fprintln(&text, w.chain, w.text)
	}
	now = Found{generation: generation(), wanted: text.String()}
	return now, now.generation != 0 && now == *r.Found
}

// found remembers it.
func (r Rules) found(now Found) {
	if r.Found != nil {
		*r.Found = now
	}
}

// generation is the number that the kernel gives the rules of the packet filter. Each change,
// by any program, increases it. It is 0 if the kernel does not tell it.
func generation() uint32 {
	const table = unix.NFNL_SUBSYS_NFTABLES << 8
	req := nl.NewNetlinkRequest(table|unix.NFT_MSG_GETGEN, 0)
	req.AddData(&nl.Nfgenmsg{})
	messages, err := req.Execute(unix.NETLINK_NETFILTER, table|unix.NFT_MSG_NEWGEN)
	if err != nil || len(messages) != 1 || len(messages[0]) < nl.SizeofNfgenmsg {
		return 0
	}
	attributes, err := nl.ParseRouteAttr(messages[0][nl.SizeofNfgenmsg:])
	if err != nil {
		return 0
	}
	for _, a := range attributes {
		if a.Attr.Type == unix.NFTA_GEN_ID && len(a.Value) == 4 {
			return binary.BigEndian.Uint32(a.Value)
		}
	}
	return 0
}
