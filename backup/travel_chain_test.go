package backup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/frame"
)

// chainOf makes a chain of so many backups, b0, b1 and so on.
func chainOf(t testing.TB, s backup.Store, dir string, n int) {
	t.Helper()
	for i := range n {
		must(t, os.WriteFile(filepath.Join(dir, "more"), fmt.Appendf(nil, "%d", i), 0o600))
		if b, why := next(t, s, fmt.Sprintf("b%d", i), dir, 32); b.Chain != i+1 {
			t.Fatalf("it is %+v, for %q", b, why)
		}
	}
}

// sent is a backup on its way, without the archives of those that are left out.
func sent(t testing.TB, s backup.Store, by *certs.Identity, name string, leftOut ...string) []byte {
	t.Helper()
	var wire bytes.Buffer
	_, err := s.Export(t.Context(), name, &wire, by.Sign, leftOut...)
	must(t, err)
	return wire.Bytes()
}

// TestRandomChainsTravel: whatever the other host has of a chain, and whatever of that is left
// out, what comes is restored as on the first host, and once more changes nothing.
func TestRandomChainsTravel(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 185))
		me := identity(t)
		from, to := store(t, me).Still(-time.Hour), store(t, identity(t))
		dir := filepath.Join(t.TempDir(), "root")
		must(t, os.Mkdir(dir, 0o755))
		var was []string
		for i := range 2 + r.IntN(4) {
			if r.IntN(4) > 0 { // an increment may hold nothing
				mutate(t, r, dir)
			}
			next(t, from, fmt.Sprintf("b%d", i), dir, 32)
			was = append(was, contents(t, dir, ids))
			tick(t, dir)
		}
		name := func(i int) string { return fmt.Sprintf("b%d", i) }
		have := r.IntN(len(was))
		if have > 0 {
			_, err := to.Import(t.Context(), file(t, sent(t, from, me, name(have-1))), name(have-1), knows(me))
			must(t, err)
		}
		var leftOut []string
		for i := range have {
			if r.IntN(2) == 0 {
				leftOut = append(leftOut, name(i))
			}
		}
		last := name(len(was) - 1)
		wire := sent(t, from, me, last, leftOut...)
		var there []string
		for range 2 {
			b, err := to.Import(t.Context(), file(t, wire), last, knows(me))
			if must(t, err); b.Chain != len(was) || b.Scheduled || b.Verified.IsZero() {
				t.Errorf("seed %d: it came as %+v", seed, b)
			}
			now := names(t, to.Dir)
			if there != nil && !slices.Equal(there, now) {
				t.Errorf("seed %d: first there are %q, then %q", seed, there, now)
			}
			there = now
		}
		for i, want := range was {
			if got := restored(t, to, name(i)); got != want {
				t.Errorf("seed %d: with %d there and %q left out, %s gives\n%s, want\n%s", seed, have, leftOut, name(i), got, want)
			}
		}
		all, err := to.List(t.Context())
		must(t, err)
		for _, b := range all {
			if b.Problem != "" || b.From != "edge-01" || b.Verified.IsZero() {
				t.Errorf("seed %d: there is %+v", seed, b)
			}
		}
		// All that is there is left out: nothing but manifests goes.
		every := names(t, from.Dir)
		every = slices.DeleteFunc(every, func(n string) bool { return !strings.HasSuffix(n, ".hostler-backup") })
		for i := range every {
			every[i] = strings.TrimSuffix(every[i], ".hostler-backup")
		}
		if _, err := to.Import(t.Context(), file(t, sent(t, from, me, last, every...)), last, knows(me)); err != nil {
			t.Errorf("seed %d: it is there, and does not come without archives: %v", seed, err)
		}
	}
}

// signed is a part of a backup on its way, as a host signs it that may mean harm.
func signed(t testing.TB, by *certs.Identity, m backup.Manifest, archive []byte) (raw []byte, sum string) {
	t.Helper()
	digest := sha256.Sum256(archive)
	m.Form, m.Bytes, m.SHA256, m.DiffID, m.Entries = "backup/1", int64(len(archive)), hex.EncodeToString(digest[:]), "sha256:0", 1
	text, err := json.Marshal(m)
	must(t, err)
	sig, err := by.Sign(text)
	must(t, err)
	end, err := frame.Append("hostlrx1", text, sig)
	must(t, err)
	digest = sha256.Sum256(text)
	return slices.Concat(archive, end), hex.EncodeToString(digest[:])
}

// TestHostileChains: of a chain that cannot be, is not whole, or was put together of others,
// nothing is written.
func TestHostileChains(t *testing.T) {
	me, stranger := identity(t), identity(t)
	from, to := store(t, me), store(t, identity(t))
	dir := root(t)
	chainOf(t, from, dir, 3)
	whole := sent(t, from, me, "b2")
	b0 := sent(t, from, me, "b0")
	b1 := sent(t, from, me, "b1")[len(b0):]
	b2 := whole[len(b0)+len(b1):]
	other := store(t, me) // of another container, with backups of the same names
	chainOf(t, other, root(t), 3)
	otherWhole := sent(t, other, me, "b2")
	other0 := sent(t, other, me, "b0")

	flip := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 1
		return b
	}
	over := func(p *backup.Parent) backup.Manifest {
		m := web
		m.Parent = p
		return m
	}
	zero := strings.Repeat("0", 64)
	first, firstSum := signed(t, me, web, []byte("full"))
	foreign, foreignSum := signed(t, stranger, web, []byte("full"))
	itself, _ := signed(t, me, over(&backup.Parent{Name: "b2", SHA256: zero, Depth: 1}), []byte("x"))
	low, lowSum := signed(t, me, over(&backup.Parent{Name: "b2", SHA256: zero, Depth: 1}), []byte("x"))
	round, _ := signed(t, me, over(&backup.Parent{Name: "b1", SHA256: lowSum, Depth: 2}), []byte("y"))
	onForeign, _ := signed(t, me, over(&backup.Parent{Name: "b0", SHA256: foreignSum, Depth: 1}), []byte("x"))
	sameName, _ := signed(t, me, over(&backup.Parent{Name: "b2", SHA256: firstSum, Depth: 1}), []byte("x"))
	deep, _ := signed(t, me, over(&backup.Parent{Name: "b0", SHA256: firstSum, Depth: 7}), []byte("x"))
	elsewhere := over(&backup.Parent{Name: "b0", SHA256: firstSum, Depth: 1})
	elsewhere.CTID = "01ARZ3NDEKTSV4RRFFQ69G5FAW"
	changed, _ := signed(t, me, elsewhere, []byte("x"))
	volumed := web
	volumed.Volumes = []backup.Packed{{Name: "data", Offset: 1, Bytes: 1, DiffID: "sha256:0", Entries: 1}}
	withVolume, volumeSum := signed(t, me, volumed, []byte("full"))
	onVolume, _ := signed(t, me, over(&backup.Parent{Name: "b0", SHA256: volumeSum, Depth: 1}), []byte("x"))
	var long []byte
	sum := ""
	for i := range backup.MaxChain + 1 {
		m := web
		if i > 0 {
			m.Parent = &backup.Parent{Name: fmt.Sprintf("c%d", i-1), SHA256: sum, Depth: i}
		}
		var raw []byte
		raw, sum = signed(t, me, m, fmt.Appendf(nil, "%d", i))
		long = append(long, raw...)
	}

	for what, tc := range map[string]struct {
		raw  []byte
		says string
	}{
		"the parent is missing":      {slices.Concat(b1, b2), "has not come with it"},
		"the middle is missing":      {slices.Concat(b0, b2), "of another backup b1"},
		"two are swapped":            {slices.Concat(b1, b0, b2), "of another backup b1"},
		"one is there twice":         {slices.Concat(b0, b1, b1, b2), "of another backup b0"},
		"another full one is below":  {slices.Concat(other0, b1, b2), "of another backup b0"},
		"another one is in between":  {slices.Concat(b0, otherWhole[len(other0):]), "of another backup b0"},
		"something lies before it":   {slices.Concat([]byte("x"), whole), "its manifest tells of"},
		"two chains":                 {slices.Concat(b0, whole), "its manifest tells of"},
		"cut short":                  {whole[:len(whole)-1], "cut short"},
		"cut at the beginning":       {whole[1:], "its manifest tells of"},
		"the full one is edited":     {flip(10), "backup b0"},
		"an increment is edited":     {flip(len(b0) + 10), "backup b1"},
		"a manifest is edited":       {flip(bytes.Index(whole[len(b0):], []byte(`"web"`)) + len(b0) + 1), "backup b1"},
		"signed by a stranger":       {slices.Concat(foreign, onForeign), "backup b0"},
		"increment of itself":        {itself, "has not come with it"},
		"increment of itself, twice": {slices.Concat(itself, itself), "of another backup"},
		"round in a circle":          {slices.Concat(round, low, round), "of another backup"},
		"called as one below it":     {slices.Concat(first, sameName), "cannot have that name"},
		"deeper than it is":          {slices.Concat(first, deep), "of another backup b0"},
		"of another container":       {slices.Concat(first, changed), "of another backup b0"},
		"of one with volumes":        {slices.Concat(withVolume, onVolume), "of another backup b0"},
		"too long":                   {long, "no backup that can be"},
		"left out, and never there":  {sent(t, from, me, "b2", "b0"), "b0 was left out"},
		"all is left out":            {sent(t, from, me, "b2", "b0", "b1", "b2"), "b0 was left out"},
		"as it is kept on the host":  {slices.Concat(b0, b1, read(t, from, "b2")), "cut short"},
		"nothing":                    {nil, "cut short"},
		"only a piece of a manifest": {b2[len(b2)-100:], "cut short"},
	} {
		_, err := to.Import(t.Context(), file(t, tc.raw), "b2", knows(me))
		if err == nil || !errors.Is(err, backup.ErrArchive) && !errors.Is(err, container.ErrExists) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", what, err)
		}
		if all := names(t, to.Dir); len(all) > 0 {
			t.Fatalf("%s: there are %q", what, all)
		}
	}
	both := func(text, sig []byte) (string, error) {
		if me.PublicKey().Verify(sig, text) == nil {
			return "edge-01", nil
		}
		return "edge-03", stranger.PublicKey().Verify(sig, text)
	}
	if _, err := to.Import(t.Context(), file(t, slices.Concat(foreign, onForeign)), "b2", both); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "host edge-03") {
		t.Errorf("a part that another host has signed: %v", err)
	}
	if _, err := to.Import(t.Context(), file(t, whole), "b1", knows(me)); !errors.Is(err, container.ErrExists) {
		t.Errorf("called as one below it: %v", err)
	}
	if _, err := from.Export(t.Context(), "b1", new(bytes.Buffer), me.Sign, "b2"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("without one that is no part of it: %v", err)
	}
	if all := names(t, to.Dir); len(all) > 0 {
		t.Errorf("there are %q", all)
	}
}

// read is a backup as its host keeps it.
func read(t testing.TB, s backup.Store, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Dir, name+".hostler-backup"))
	must(t, err)
	return raw
}

// TestChainMeetsOthers: a backup of this host that bears the name of one that comes is never
// replaced, and what comes is not laid over it.
func TestChainMeetsOthers(t *testing.T) {
	me, id := identity(t), identity(t)
	from := store(t, me)
	dir := root(t)
	chainOf(t, from, dir, 3)
	whole := sent(t, from, me, "b2")
	for i, name := range []string{"b0", "b1", "b2"} {
		to := store(t, id)
		_, err := to.Create(t.Context(), name, root(t), ids, web)
		must(t, err)
		mine := read(t, to, name)
		if _, err := to.Import(t.Context(), file(t, whole), "b2", knows(me)); !errors.Is(err, container.ErrExists) || !strings.Contains(err.Error(), name) {
			t.Errorf("beside another %s: %v", name, err)
		}
		if all, err := to.List(t.Context()); err != nil || len(all) != 1 || !bytes.Equal(mine, read(t, to, name)) {
			t.Errorf("beside %d of its own there are %+v, %v", i, all, err)
		}
	}
	to := store(t, id)
	_, err := to.Import(t.Context(), file(t, whole), "b2", knows(me))
	must(t, err, os.Remove(filepath.Join(to.Dir, "b0.hostler-backup")))
	if _, err := to.Import(t.Context(), file(t, whole), "b2", knows(me)); !errors.Is(err, container.ErrExists) || !strings.Contains(err.Error(), "b1") {
		t.Errorf("over one whose chain is not whole: %v", err)
	}
	must(t, to.Remove(t.Context(), "b2"), to.Remove(t.Context(), "b1"))
	_, err = to.Import(t.Context(), file(t, whole), "b2", knows(me))
	must(t, err)
}

// FuzzArrived reads whatever comes, signed by a host of the fleet: it is refused, and nothing is
// written, or it is a whole chain.
func FuzzArrived(f *testing.F) {
	me := identity(f)
	from := store(f, me)
	chainOf(f, from, root(f), 3)
	f.Add(sent(f, from, me, "b2"))
	f.Add(sent(f, from, me, "b2", "b1"))
	trust := func([]byte, []byte) (string, error) { return "edge-01", nil }
	f.Fuzz(func(t *testing.T, raw []byte) {
		to := store(t, me)
		_, err := to.Import(t.Context(), file(t, raw), "b2", trust)
		if err != nil && len(names(t, to.Dir)) > 0 {
			t.Fatalf("it is refused, and there are %q: %v", names(t, to.Dir), err)
		}
		if err == nil {
			_, err := to.Verify(t.Context(), "b2")
			must(t, err)
		}
	})
}
