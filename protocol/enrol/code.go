package enrol

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/hostler-io/hostler/protocol"
)

// ErrCode tells that a text is not the code that was asked for. The rest of
// the error says to a person what to do.
var ErrCode = errors.New("unusable code")

// alphabet is Crockford's base 32 in lower case: no i, l, o and u, so that
// what was read aloud or copied by hand can be mended.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// sumSize is the size of a code's checksum: one typo in 2^32 goes unseen.
const sumSize = 4

// kinds of codes: what each starts with, and what it is called.
const (
	joinPrefix    = "hj1_"
	fleetPrefix   = "hf1_"
	requestPrefix = "hc1_"
	ownerPrefix   = "ho1_"
	loginPrefix   = "hl1_"
)

func codeName(prefix string) string {
	switch prefix {
	case joinPrefix:
		return "a join code (of hostler host invite)"
	case fleetPrefix:
		return "a fleet code (of hostler fleet init)"
	case requestPrefix:
		return "a coordinator's request (of hostler-coordinator init)"
	case ownerPrefix:
		return "an owner's request (of hostler fleet request-owner)"
	case loginPrefix:
		return "a login code (of hostler token create)"
	}
	return ""
}

func encoding() *base32.Encoding { return base32.NewEncoding(alphabet).WithPadding(base32.NoPadding) }

// checksum covers the prefix too, so that no code is taken for another kind.
func checksum(prefix string, payload []byte) []byte {
	sum := sha256.Sum256(append([]byte(prefix), payload...))
	return sum[:sumSize]
}

func encodeCode(prefix string, payload []byte) string {
	b := append(bytes.Clone(payload), checksum(prefix, payload)...)
	return prefix + encoding().EncodeToString(b)
}

// decodeCode takes what people do to a code: white space within it, capitals,
// and o, i, l for the digits they look like.
func decodeCode(prefix, text string, most int) ([]byte, error) {
	bad := func(format string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf("%w: %s", ErrCode, fmt.Sprintf(format, args...))
	}
	if len(text) > 4*most {
		return bad("it has %d characters, which is too many for %s", len(text), codeName(prefix))
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		head := text[:min(len(text), len(prefix))]
		if other := codeName(head); other != "" {
			return bad("it is %s, want %s", other, codeName(prefix))
		}
		return bad("it starts with %q, want %q, as %s does", head, prefix, codeName(prefix))
	}
	rest = strings.NewReplacer("o", "0", "i", "1", "l", "1").Replace(rest)
	if i := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune(alphabet, r) }); i >= 0 {
		return bad("character %d, %q, is in no code", len(prefix)+i+1, []rune(rest[i:])[0])
	}
	b, err := encoding().DecodeString(rest)
	if err != nil || encoding().EncodeToString(b) != rest || len(b) < sumSize || len(b) > most {
		return bad("its length is wrong; copy it again as a whole")
	}
	payload, sum := b[:len(b)-sumSize], b[len(b)-sumSize:]
	if !bytes.Equal(sum, checksum(prefix, payload)) {
		return bad("a character is wrong, missing or in the wrong place; copy it again as a whole")
	}
	return payload, nil
}

// Pin names one ring by number and digest, as codes carry it. The digest is
// the first 20 bytes of the SHA-256 of the ring's body: nobody but the owners
// makes rings, so a second one with the same 160 bits is what it would take.
type Pin struct {
	Ring   uint64
	Digest [20]byte
}

// PinOf returns the pin of a ring.
func PinOf(ring uint64, digest protocol.Digest) Pin {
	return Pin{Ring: ring, Digest: [20]byte(digest[:20])}
}

// Matches reports whether the pin is of the ring with this number and digest.
func (p Pin) Matches(ring uint64, digest protocol.Digest) bool { return p == PinOf(ring, digest) }

// Secret is what a join code proves the knowledge of. It has no text form but
// the code itself, so that none gets into a log.
type Secret [16]byte

// String says that it is a secret, and not which.
func (Secret) String() string { return "(secret)" }

// MarshalText writes what String says.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Limits of the addresses in a code.
const (
	// MaxAddresses is how many addresses of the coordinator a code may hold.
	MaxAddresses = 8
	maxHostName  = 253 // RFC 1035, without the final dot
)

// JoinCode is what "hostler host invite" prints and "hostler-agent join" takes.
type JoinCode struct {
	Addresses []string // host:port of the coordinator's HTTPS, tried in order
	Pin       Pin      // the ring in force when it was made
	Secret    Secret
}

// Encode returns the code's one line: about 85 characters for one IPv4
// address, more for a name. It fails on addresses that are none.
func (c JoinCode) Encode() (string, error) {
	b, err := appendAddresses(append(appendPin(nil, c.Pin), c.Secret[:]...), c.Addresses)
	if err != nil {
		return "", err
	}
	return encodeCode(joinPrefix, b), nil
}

// ParseJoinCode reads a join code.
func ParseJoinCode(text string) (JoinCode, error) {
	b, err := decodeCode(joinPrefix, text, 4<<10)
	if err != nil {
		return JoinCode{}, err
	}
	r := reader{b: b}
	c := JoinCode{Pin: r.pin(), Secret: Secret(r.take(16)), Addresses: r.addresses()}
	// The checksum is no secret: only what Encode writes is read.
	if again, err := c.Encode(); r.bad || err != nil || again != encodeCode(joinPrefix, b) {
		return JoinCode{}, fmt.Errorf("%w: it was made by another version of Hostler", ErrCode)
	}
	return c, nil
}

// LoginCode is what "hostler token create" prints and "hostler login" takes.
type LoginCode struct {
	Addresses []string // host:port of the coordinator's HTTPS, tried in order
	Pin       Pin      // the ring in force when it was made: it names the authorities of the coordinator
	Token     string   // an API token
}

// Encode returns the code's one line: about 140 characters for one IPv4 address.
func (c LoginCode) Encode() (string, error) {
	if c.Token == "" || len(c.Token) > maxToken {
		return "", fmt.Errorf("%w: a token of %d characters, want 1 to %d", ErrCode, len(c.Token), maxToken)
	}
	b := binary.BigEndian.AppendUint16(appendPin(nil, c.Pin), uint16(len(c.Token)))
	b, err := appendAddresses(append(b, c.Token...), c.Addresses)
	if err != nil {
		return "", err
	}
	return encodeCode(loginPrefix, b), nil
}

// maxToken bounds the token in a login code, in bytes.
const maxToken = 128

// IsLoginCode reports whether a text means to be a login code.
func IsLoginCode(text string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), loginPrefix)
}

// ParseLoginCode reads a login code.
func ParseLoginCode(text string) (LoginCode, error) {
	b, err := decodeCode(loginPrefix, text, 4<<10)
	if err != nil {
		return LoginCode{}, err
	}
	r := reader{b: b}
	c := LoginCode{Pin: r.pin(), Token: string(r.part()), Addresses: r.addresses()}
	if again, err := c.Encode(); r.bad || err != nil || again != encodeCode(loginPrefix, b) {
		return LoginCode{}, fmt.Errorf("%w: it was made by another version of Hostler", ErrCode)
	}
	return c, nil
}

// FleetCode is what "hostler fleet init" prints and "hostler-coordinator init"
// takes: which fleet, and which ring it starts from.
type FleetCode struct {
	Fleet protocol.FleetID
	Name  protocol.FleetName
	Pin   Pin
}

// Encode returns the code's one line of about 75 characters.
func (c FleetCode) Encode() string {
	b := append(appendPin(nil, c.Pin), c.Fleet[:]...)
	return encodeCode(fleetPrefix, append(b, c.Name...))
}

// ParseFleetCode reads a fleet code.
func ParseFleetCode(text string) (FleetCode, error) {
	b, err := decodeCode(fleetPrefix, text, 256)
	if err != nil {
		return FleetCode{}, err
	}
	r := reader{b: b}
	c := FleetCode{Pin: r.pin(), Fleet: protocol.FleetID(r.take(16))}
	if c.Name, err = protocol.ParseFleetName(string(r.b)); r.bad || err != nil || c.Fleet.IsZero() || c.Encode() != encodeCode(fleetPrefix, b) {
		return FleetCode{}, fmt.Errorf("%w: it was made by another version of Hostler", ErrCode)
	}
	return c, nil
}

// maxPart bounds the key and the certificate of a request, in bytes.
const maxPart = 8 << 10

// CoordinatorRequest is what "hostler-coordinator init" prints and "hostler
// fleet ring add-coordinator" takes. Both parts are public; the receiver
// checks what they are.
type CoordinatorRequest struct {
	Fleet protocol.FleetID
	Key   []byte // OpenPGP certificate, binary
	TLSCA []byte // X.509 certificate, DER
}

// Encode returns the request's one line of about 1,300 characters.
func (c CoordinatorRequest) Encode() (string, error) {
	if len(c.Key) > maxPart || len(c.TLSCA) > maxPart {
		return "", fmt.Errorf("%w: a key of %d and a certificate of %d bytes, at most %d are allowed", ErrCode, len(c.Key), len(c.TLSCA), maxPart)
	}
	return encodeCode(requestPrefix, c.payload()), nil
}

func (c CoordinatorRequest) payload() []byte {
	b := bytes.Clone(c.Fleet[:])
	for _, part := range [][]byte{c.Key, c.TLSCA} {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(part))), part...)
	}
	return b
}

// ParseCoordinatorRequest reads a request.
func ParseCoordinatorRequest(text string) (CoordinatorRequest, error) {
	b, err := decodeCode(requestPrefix, text, 2*maxPart+64)
	if err != nil {
		return CoordinatorRequest{}, err
	}
	r := reader{b: b}
	c := CoordinatorRequest{Fleet: protocol.FleetID(r.take(16)), Key: r.part(), TLSCA: r.part()}
	if r.bad || len(r.b) != 0 || c.Fleet.IsZero() || len(c.Key) == 0 || len(c.Key) > maxPart || len(c.TLSCA) == 0 || len(c.TLSCA) > maxPart {
		return CoordinatorRequest{}, fmt.Errorf("%w: it was made by another version of Hostler", ErrCode)
	}
	return c, nil
}

// OwnerRequest is what "hostler fleet request-owner" prints and "hostler fleet
// ring add-owner" takes. All of it is public.
type OwnerRequest struct {
	Fleet  protocol.FleetID
	Person string // name of the owner, which stands in the ring
	Key    []byte // OpenPGP certificate, binary
}

// maxPerson bounds the name of a person in a request, in bytes.
const maxPerson = 64

// Encode returns the request's one line.
func (o OwnerRequest) Encode() (string, error) {
	if len(o.Key) > maxPart || len(o.Person) > maxPerson {
		return "", fmt.Errorf("%w: a key of %d and a name of %d bytes, at most %d and %d are allowed", ErrCode, len(o.Key), len(o.Person), maxPart, maxPerson)
	}
	b := bytes.Clone(o.Fleet[:])
	for _, part := range [][]byte{[]byte(o.Person), o.Key} {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(part))), part...)
	}
	return encodeCode(ownerPrefix, b), nil
}

// ParseOwnerRequest reads a request. Whether its parts are what they should be
// is checked by who puts them into a ring.
func ParseOwnerRequest(text string) (OwnerRequest, error) {
	b, err := decodeCode(ownerPrefix, text, maxPart+maxPerson+64)
	if err != nil {
		return OwnerRequest{}, err
	}
	r := reader{b: b}
	o := OwnerRequest{Fleet: protocol.FleetID(r.take(16)), Person: string(r.part()), Key: r.part()}
	if r.bad || len(r.b) != 0 || o.Fleet.IsZero() || o.Person == "" || len(o.Person) > maxPerson || len(o.Key) == 0 || len(o.Key) > maxPart {
		return OwnerRequest{}, fmt.Errorf("%w: it was made by another version of Hostler", ErrCode)
	}
	return o, nil
}

// Addresses in codes: an address of 4 or 16 bytes, or a name of 1 to 253 bytes,
// each after one byte of kind or length, and the port.
const (
	kindIPv4 = 255
	kindIPv6 = 254
)

func appendAddresses(b []byte, all []string) ([]byte, error) {
	if len(all) < 1 || len(all) > MaxAddresses {
		return nil, fmt.Errorf("%w: it has %d addresses, want 1 to %d", ErrCode, len(all), MaxAddresses)
	}
	for _, a := range all {
		var err error
		if b, err = appendAddress(b, a); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func appendAddress(b []byte, address string) ([]byte, error) {
	bad := fmt.Errorf("%w: address %.300q: want host:port", ErrCode, address)
	if ap, err := netip.ParseAddrPort(address); err == nil {
		ip := ap.Addr()
		if ip.Zone() != "" || ip.Is4In6() || ap.Port() == 0 {
			return nil, bad
		}
		kind := byte(kindIPv4)
		if ip.Is6() {
			kind = kindIPv6
		}
		b = append(append(b, kind), ip.AsSlice()...)
		return binary.BigEndian.AppendUint16(b, ap.Port()), nil
	}
	i := strings.LastIndexByte(address, ':')
	if i < 1 || !isHostName(address[:i]) {
		return nil, bad
	}
	port, err := strconv.ParseUint(address[i+1:], 10, 16)
	if err != nil || port == 0 || strconv.FormatUint(port, 10) != address[i+1:] {
		return nil, bad
	}
	b = append(append(b, byte(i)), address[:i]...)
	return binary.BigEndian.AppendUint16(b, uint16(port)), nil
}

// isHostName accepts names of labels as [protocol.ParseHostID] does.
func isHostName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if _, err := protocol.ParseHostID(label); err != nil {
			return false
		}
	}
	return len(s) <= maxHostName
}

func appendPin(b []byte, p Pin) []byte {
	return append(binary.AppendUvarint(b, p.Ring), p.Digest[:]...)
}

// reader takes a payload apart. Once it ran out, bad stays set and everything
// it returns is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) part() []byte { return r.take(int(binary.BigEndian.Uint16(r.take(2)))) }

func (r *reader) pin() Pin {
	n, size := binary.Uvarint(r.b)
	if r.bad = r.bad || size <= 0; r.bad {
		return Pin{}
	}
	r.b = r.b[size:]
	return Pin{Ring: n, Digest: [20]byte(r.take(20))}
}

func (r *reader) addresses() (all []string) {
	for len(r.b) > 0 && !r.bad && len(all) < MaxAddresses {
		all = append(all, r.address())
	}
	return all
}

func (r *reader) address() string {
	var host string
	switch kind := r.take(1)[0]; kind {
	case kindIPv4:
		host = netip.AddrFrom4([4]byte(r.take(4))).String()
	case kindIPv6:
		host = "[" + netip.AddrFrom16([16]byte(r.take(16))).String() + "]"
	default:
		host = string(r.take(int(kind)))
	}
	return host + ":" + strconv.Itoa(int(binary.BigEndian.Uint16(r.take(2))))
}
