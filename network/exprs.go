package network

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Bits of the connections that the kernel tracks: linux/nf_conntrack_common.h.
const (
	ctNew  = 1 << 3
	ctDNAT = 1 << 5
)

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// iface matches packets by the interface that they come or go by.
func iface(key expr.MetaKey, name string, op expr.CmpOp) []expr.Any {
	data := make([]byte, unix.IFNAMSIZ)
	copy(data, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: data}}
}

// familyOf is the protocol that an address is of, as the packet filter numbers it.
func familyOf(a netip.Addr) byte {
	if a.Is6() {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

// ofFamily matches packets of the protocol that an address is of.
func ofFamily(a netip.Addr) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{familyOf(a)}}}
}

// fromNetwork matches packets that come from an address of a network.
func fromNetwork(p netip.Prefix) []expr.Any {
	if p.Addr().Is6() {
		return addressed(8, p)
	}
	return addressed(12, p)
}

// outside matches packets that come from an address of the same protocol which is not of a
// network.
func outside(p netip.Prefix) []expr.Any {
	all := fromNetwork(p)
	all[len(all)-1].(*expr.Cmp).Op = expr.CmpOpNeq
	return all
}

// toNetwork matches packets that go to an address of a network.
func toNetwork(p netip.Prefix) []expr.Any {
	if p.Addr().Is6() {
		return addressed(24, p)
	}
	return addressed(16, p)
}

// addressed matches packets with an address of a network at an offset of their header.
func addressed(offset uint32, p netip.Prefix) []expr.Any {
	bits := p.Addr().BitLen()
	size := uint32(bits / 8)
	return append(ofFamily(p.Addr()),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: net.CIDRMask(p.Bits(), bits), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()})
}

// tracked matches packets by a bit of their connection.
func tracked(key expr.CtKey, bit uint32, set bool) []expr.Any {
	op := expr.CmpOpEq
	if set {
		op = expr.CmpOpNeq
	}
	return []expr.Any{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bit), Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: 1, Data: make([]byte, 4)},
	}
}

// toThisHost matches packets to any address that the host itself has, of the protocol that
// an address is of.
func toThisHost(like netip.Addr) []expr.Any {
	return append(ofFamily(like),
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)})
}

// toPort matches packets to a port.
func toPort(protocol string, port uint16) []expr.Any {
	number := byte(unix.IPPROTO_TCP)
	if protocol == "udp" {
		number = unix.IPPROTO_UDP
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
	}
}

// destinationNAT sends packets to another address and port.
func destinationNAT(to netip.Addr, port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: to.AsSlice()},
		&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(familyOf(to)), RegAddrMin: 1, RegProtoMin: 2},
	}
}

// masquerade has packets go out by the address of the interface that they go by.
func masquerade() []expr.Any { return []expr.Any{&expr.Masq{}} }

func verdict(kind expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: kind}} }
