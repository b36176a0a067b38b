package certs_test

import (
	"bytes"
	"crypto"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	pgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/hostler-io/hostler/certs"
)

// foreign is a key made by the library alone, to sign in ways that we never
// do.
func foreign(t *testing.T, change func(*packet.Config)) (*pgp.Entity, []byte) {
	t.Helper()
	no := false
	c := &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, DefaultHash: crypto.SHA256, NonDeterministicSignaturesViaNotation: &no}
	if change != nil {
		change(c)
	}
	e, err := pgp.NewEntity("somebody", "", "", c)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := e.Serialize(&b); err != nil {
		t.Fatal(err)
	}
	return e, b.Bytes()
}

// detach signs body with a signature packet that change may bend.
func detach(t *testing.T, e *pgp.Entity, body []byte, change func(*packet.Signature)) []byte {
	t.Helper()
	no := false
	c := &packet.Config{NonDeterministicSignaturesViaNotation: &no}
	s := &packet.Signature{
		Version: e.PrimaryKey.Version, SigType: packet.SigTypeBinary, PubKeyAlgo: e.PrimaryKey.PubKeyAlgo,
		Hash: crypto.SHA256, CreationTime: time.Now(), IssuerKeyId: &e.PrimaryKey.KeyId,
	}
	if change != nil {
		change(s)
	}
	h, err := s.PrepareSign(c)
	if err != nil {
		t.Fatal(err)
	}
	h.Write(body)
	if err := s.Sign(h, e.PrivateKey, c); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Serialize(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCheckForm(t *testing.T) {
	body := []byte(`{"hostler":"order/1"}`)
	e, cert := foreign(t, nil)
	k, err := certs.ParsePublicKey(cert)
	if err != nil {
		t.Fatal(err)
	}
	good := detach(t, e, body, nil)
	for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
		sig := detach(t, e, body, func(s *packet.Signature) { s.Hash = h })
		if err := k.CheckForm(sig); err != nil {
			t.Errorf("%v: %v", h, err)
		}
		if err := k.Verify(sig, body); err != nil {
			t.Errorf("%v: %v", h, err)
		}
	}
	stranger, _ := foreign(t, nil)
	version := func(v byte) []byte { b := bytes.Clone(good); b[2] = v; return b }
	six, sixCert := foreign(t, func(c *packet.Config) { c.V6Keys = true; c.Algorithm = packet.PubKeyAlgoEd25519 })
	if _, err := certs.ParsePublicKey(sixCert); err == nil {
		t.Error("a certificate of version 6 is taken")
	}
	for name, sig := range map[string][]byte{
		"empty":             nil,
		"two signatures":    slices.Concat(good, good),
		"bad, then good":    slices.Concat(detach(t, e, []byte("x"), nil), good),
		"text":              detach(t, e, body, func(s *packet.Signature) { s.SigType = packet.SigTypeText }),
		"of a key":          detach(t, e, body, func(s *packet.Signature) { s.SigType = packet.SigTypeDirectSignature }),
		"byte after":        append(bytes.Clone(good), 0),
		"byte before":       append([]byte{0}, good...),
		"cut":               good[:len(good)-1],
		"SHA-224":           detach(t, e, body, func(s *packet.Signature) { s.Hash = crypto.SHA224 }),
		"SHA3-256":          bytes.Replace(good, []byte{4, 0, 22, 8}, []byte{4, 0, 22, 12}, 1),
		"SHA-1":             bytes.Replace(good, []byte{4, 0, 22, 8}, []byte{4, 0, 22, 2}, 1),
		"other algorithm":   bytes.Replace(good, []byte{4, 0, 22, 8}, []byte{4, 0, 27, 8}, 1),
		"version 3":         version(3),
		"version 5":         version(5),
		"version 6":         detach(t, six, body, nil),
		"says it is 6":      version(6),
		"of a stranger":     detach(t, stranger, body, nil),
		"two issuers":       detach(t, e, body, func(s *packet.Signature) { s.IssuerKeyId = &stranger.PrimaryKey.KeyId }),
		"inside the packet": grow(good),
		"other packet":      append([]byte{0xcb}, good[1:]...), // literal data
		"partial length":    append([]byte{good[0], 0xe0}, good[1:]...),
		"no issuer":         withoutIssuer(good),
	} {
		if err := k.CheckForm(sig); err == nil {
			t.Errorf("%s: CheckForm takes it", name)
		}
		if err := k.Verify(sig, body); err == nil {
			t.Errorf("%s: Verify takes it", name)
		}
	}
}

// grow appends a byte inside the packet, behind its last number.
func grow(sig []byte) []byte {
	b := append(bytes.Clone(sig), 0)
	b[1]++
	return b
}

// withoutIssuer makes the types of the subpackets that name the issuer ones
// that nobody knows.
func withoutIssuer(sig []byte) []byte {
	b := bytes.Replace(sig, []byte{9, 16}, []byte{9, 100}, 1)
	return bytes.Replace(b, []byte{22, 33, 4}, []byte{22, 100, 4}, 1)
}

func TestVerifyIsOverTheVeryBytes(t *testing.T) {
	id := newIdentity(t, "a")
	other := newIdentity(t, "b")
	body := []byte(`{"a":1}`)
	sig, err := id.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.PublicKey().Verify(sig, body); err != nil {
		t.Error(err)
	}
	for i := range body {
		b := bytes.Clone(body)
		b[i] ^= 1
		if id.PublicKey().Verify(sig, b) == nil {
			t.Errorf("a body changed at byte %d is taken", i)
		}
	}
	if other.PublicKey().Verify(sig, body) == nil {
		t.Error("another key takes it")
	}
	again, err := id.WithClock(func() time.Time { return time.Unix(2e9, 0) }).Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	same, err := id.WithClock(func() time.Time { return time.Unix(2e9, 0) }).Sign(body)
	if err != nil || !bytes.Equal(again, same) {
		t.Errorf("the same body at the same time has two signatures: %v", err)
	}
}

// TestSignaturesAreDated holds that a clock that went back to before the key
// was made does not date a signature before its key.
func TestSignaturesAreDated(t *testing.T) {
	made := time.Unix(1e9, 0)
	id, err := certs.Generate("a", made)
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[int64]int64{-5: 1e9, 0: 1e9, 1e9 + 1: 1e9 + 1, 4e9: 4e9, 1 << 40: 1<<32 - 1} {
		sig, err := id.WithClock(func() time.Time { return time.Unix(now, 0) }).Sign([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := packet.Read(bytes.NewReader(sig))
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := p.(*packet.Signature); !ok || s.CreationTime.Unix() != want {
			t.Errorf("clock at %d: %+v, want it dated %d", now, p, want)
		}
	}
}

// TestCertificatesHaveOneForm writes the number of the primary key with another
// count of bits, all in the same bytes.
func TestCertificatesHaveOneForm(t *testing.T) {
	cert := newIdentity(t, "a").Public()
	count := bytes.Index(cert, []byte{0x01, 0x07, 0x40}) // 263 bits, and the first of their bytes
	for _, bits := range []byte{0x01, 0x06, 0x08} {
		b := bytes.Clone(cert)
		b[count+1] = bits
		if k, err := certs.ParsePublicKey(b); !errors.Is(err, certs.ErrCertificate) {
			t.Errorf("%d bits: taken as key %v, %v", 256+int(bits), k, err)
		}
	}
}

func TestRevokedCertificates(t *testing.T) {
	for name, reason := range map[string]packet.ReasonForRevocation{
		"compromised": packet.KeyCompromised, "superseded": packet.KeySuperseded, "retired": packet.KeyRetired,
	} {
		e, _ := foreign(t, nil)
		if err := e.Revoke(reason, "", nil); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := e.Serialize(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := certs.ParsePublicKey(b.Bytes()); err == nil {
			t.Errorf("a key that was %s is taken", name)
		}
	}
}

func FuzzParsePublicKey(f *testing.F) {
	id, err := certs.Generate("fuzz", time.Unix(1e9, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(id.Public())
	f.Add(id.Public()[:53])
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := certs.ParsePublicKey(b)
		if err != nil {
			return
		}
		if !bytes.Equal(k.Bytes(), b) {
			t.Error("it keeps other bytes than it was given")
		}
		again, err := certs.ParsePublicKey(k.Bytes())
		if err != nil || again.Key() != k.Key() || again.PrimaryDigest() != k.PrimaryDigest() {
			t.Errorf("read again it is %v, %v", again, err)
		}
	})
}

func FuzzCheckForm(f *testing.F) {
	id, err := certs.Generate("fuzz", time.Unix(1e9, 0))
	if err != nil {
		f.Fatal(err)
	}
	body := []byte("body")
	good, err := id.Sign(body)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(grow(good))
	f.Add(withoutIssuer(good))
	f.Add(slices.Concat(good, good))
	f.Fuzz(func(t *testing.T, sig []byte) {
		if err := id.PublicKey().CheckForm(sig); err != nil {
			if id.PublicKey().Verify(sig, body) == nil {
				t.Error("Verify takes a form that CheckForm refuses")
			}
			return
		}
		p, err := packet.Read(bytes.NewReader(sig))
		if err != nil {
			return // the library may know more that is wrong with it
		}
		s, ok := p.(*packet.Signature)
		if !ok || s.Version != 4 || s.SigType != packet.SigTypeBinary || s.Hash != crypto.SHA256 && s.Hash != crypto.SHA384 && s.Hash != crypto.SHA512 {
			t.Errorf("the library reads it as something else: %+v", p)
		}
	})
}
