package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
)

// TestCompare holds versions against what dpkg --compare-versions says of them.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		older, newer string
	}{
		{"0.1.0", "0.2.0"}, {"0.9.0", "0.10.0"}, {"0.1.0~812.abc", "0.1.0"}, {"0.1.0~812.abc", "0.1.0~1000.aaa"},
		{"1.0", "1.0+dirty"}, {"1.0-1", "1.0-2"}, {"1.0", "1.0-1"}, {"9.9", "1:0.1"}, {"1.0a", "1.0+"}, {"1.0~~", "1.0~"}, {"1.02", "1.3"},
		{"1", "1.0.1"}, {"0.1.0~rc1", "0.1.0~rc2"},
	} {
		if Compare(c.older, c.newer) >= 0 || Compare(c.newer, c.older) <= 0 {
			t.Errorf("%s is not older than %s", c.older, c.newer)
		}
	}
	for _, c := range [][2]string{{"1.0", "1.0"}, {"1.00", "1.0"}, {"0:1.0", "1.0"}, {"", ""}} {
		if Compare(c[0], c[1]) != 0 {
			t.Errorf("%q and %q are the same", c[0], c[1])
		}
	}
}

func zipped(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))})
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func member(name string, content []byte) string {
	pad := ""
	if len(content)%2 == 1 {
		pad = "\n"
	}
	return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n%s%s", name, 0, 0, 0, "100644", len(content), content, pad)
}

// deb makes a package.
func deb(t testing.TB, name, version, arch string, files map[string]string) []byte {
	t.Helper()
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\n", name, version, arch)
	return []byte("!<arch>\n" + member("debian-binary", []byte("2.0\n")) +
		member("control.tar.gz", zipped(t, map[string]string{"./control": control})) + member("data.tar.gz", zipped(t, files)))
}

// header writes a header of an rpm package with strings.
func header(tags map[uint32]string) []byte {
	var index, store []byte
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		for _, n := range []uint32{tag, typeString, uint32(len(store)), 1} {
			index = binary.BigEndian.AppendUint32(index, n)
		}
		store = append(store, tags[tag]+"\x00"...)
	}
	b := append([]byte(headerMagic), 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(tags)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(store)))
	return slices.Concat(b, index, store)
}

// rpm makes a package.
func rpm(t testing.TB, name, version, arch, compressor string, files map[string]string) []byte {
	t.Helper()
	return rpmOf(t, header(map[uint32]string{tagName: name, tagVersion: version, 1002: "1", tagArch: arch, tagCompressor: compressor}), packed(t, files))
}

// rpmOf makes a package of its header and its archive.
func rpmOf(t testing.TB, head, archive []byte) []byte {
	t.Helper()
	b := append([]byte(rpmMagic), make([]byte, leadSize-len(rpmMagic))...)
	b = append(b, header(map[uint32]string{269: "a digest"})...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	var content bytes.Buffer
	z := gzip.NewWriter(&content)
	_, err := z.Write(archive)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(b, head, content.Bytes())
}

// packed is a cpio archive.
func packed(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var content bytes.Buffer
	w := cpio.NewWriter(&content)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&cpio.Header{Name: name, Mode: cpio.TypeReg | 0o755, Size: int64(len(files[name]))})
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

func agentRPM(t testing.TB, version, arch string) []byte {
	return rpm(t, Agent, version, arch, "gzip", map[string]string{
		"./usr/bin/hostler-agent": "rpm agent " + version, "/usr/libexec/hostler/hostler-run": "run", "/etc/hostler/agent.toml": "",
	})
}

func agentDeb(t testing.TB, version, arch string) []byte {
	return deb(t, Agent, version, arch, map[string]string{
		"./usr/bin/hostler-agent": "agent " + version, "./usr/libexec/hostler/hostler-run": "run", "./etc/hostler/agent.toml": "", "./usr/bin/hostler-run": "elsewhere",
	})
}

func lxcDeb(t testing.TB, version string) []byte {
	return deb(t, AgentLXC, version, "amd64", map[string]string{"./usr/libexec/hostler/hostler-lxc": "lxc"})
}

func part(name string, content []byte) Package {
	return Package{Name: name, Signature: []byte("by us"), Size: int64(len(content)), Content: bytes.NewReader(content)}
}

func bundle(t testing.TB, parts ...Package) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, parts); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var errForeign = errors.New("foreign")

func byUs(sig []byte, content io.Reader) (string, error) {
	if _, err := io.Copy(io.Discard, content); err != nil {
		return "", err
	}
	if string(sig) != "by us" {
		return "", errForeign
	}
	return "us", nil
}

// TestUnpack unpacks a bundle, and refuses what is wrong with one.
func TestUnpack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "release")
	got, err := Unpack(dir, "amd64", "", bytes.NewReader(bundle(t, part("a.deb", agentDeb(t, "0.2.0", "amd64")), part("b.deb", lxcDeb(t, "0.2.0")))), byUs)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Programs)
	if fmt.Sprint(got) != "{0.2.0 us deb [hostler-agent hostler-agent-lxc] [hostler-agent hostler-lxc hostler-run]}" {
		t.Errorf("got %v", got)
	}
	for name, want := range map[string]string{"programs/hostler-agent": "agent 0.2.0", "programs/hostler-run": "run", "programs/hostler-lxc": "lxc"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "packages/hostler-agent.deb")); err != nil || !bytes.Equal(b, agentDeb(t, "0.2.0", "amd64")) {
		t.Errorf("the package is another: %v", err)
	}

	whole := bundle(t, part("a.deb", agentDeb(t, "0.2.0", "amd64")))
	foreign := part("a.deb", agentDeb(t, "0.2.0", "amd64"))
	foreign.Signature = []byte("by others")
	for what, c := range map[string]struct {
		bundle []byte
		says   string
	}{
		"another architecture":  {bundle(t, part("a.deb", agentDeb(t, "0.2.0", "arm64"))), `it is for "arm64", and this host is amd64`},
		"two versions":          {bundle(t, part("a.deb", agentDeb(t, "0.2.0", "amd64")), part("b.deb", lxcDeb(t, "0.3.0"))), "all must be the same"},
		"twice":                 {bundle(t, part("a.deb", agentDeb(t, "0.2.0", "amd64")), part("b.deb", agentDeb(t, "0.2.0", "amd64"))), "twice"},
		"no agent":              {bundle(t, part("b.deb", lxcDeb(t, "0.2.0"))), "the bundle has no program hostler-agent"},
		"another package":       {bundle(t, part("a.deb", deb(t, "cowsay", "1", "amd64", nil))), "it is the package \"cowsay\""},
		"a foreign signature":   {bundle(t, foreign), "foreign"},
		"no package at all":     {bundle(t, part("a.deb", []byte("hello"))), "it is neither a Debian package nor an rpm"},
		"nothing":               {nil, "the bundle has no program"},
		"cut":                   {whole[:len(whole)/2], "unexpected EOF"},
		"a package by itself":   {agentDeb(t, "0.2.0", "amd64"), "the bundle is damaged"},
		"compressed by another": {bundle(t, part("a.deb", []byte("!<arch>\n"+member("debian-binary", []byte("2.0\n"))+member("control.tar.xz", nil)+member("data.tar.xz", nil)))), "-Zgzip"},
	} {
		_, err := Unpack(filepath.Join(t.TempDir(), "release"), "amd64", "", bytes.NewReader(c.bundle), byUs)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}

// TestUnpackFormats: a host takes the packages of its own format, and one whose programs
// no package manager owns takes the first.
func TestUnpackFormats(t *testing.T) {
	var both [][]byte
	for _, first := range []bool{true, false} {
		parts := []Package{part("a.deb", agentDeb(t, "0.2.0", "amd64")), part("a.rpm", agentRPM(t, "0.2.0", "x86_64"))}
		if !first {
			slices.Reverse(parts)
		}
		both = append(both, bundle(t, parts...))
	}
	debs := bundle(t, part("a.deb", agentDeb(t, "0.2.0", "amd64")))
	long := agentRPM(t, "0.2.0", "x86_64")
	for what, c := range map[string]struct {
		bundle []byte
		take   Format
		want   string // the agent, or the error
	}{
		"deb of both":     {both[1], Deb, "agent 0.2.0"},
		"rpm of both":     {both[0], RPM, "rpm agent 0.2.0"},
		"the first":       {both[1], "", "rpm agent 0.2.0"},
		"only debs":       {debs, RPM, "the bundle has no rpm package, and an rpm package brought this host its programs"},
		"another machine": {bundle(t, part("a.rpm", agentRPM(t, "0.2.0", "aarch64"))), RPM, `it is for "arm64", and this host is amd64`},
		"zstd":            {bundle(t, part("a.rpm", rpm(t, Agent, "0.2.0", "x86_64", "zstd", nil))), RPM, `compressed by "zstd"`},
		"cut":             {bundle(t, part("a.rpm", long[:len(long)-40])), RPM, "unexpected EOF"},
		"a cut header":    {bundle(t, part("a.rpm", long[:200])), RPM, "its header is damaged at byte"},
	} {
		dir := filepath.Join(t.TempDir(), "release")
		r, err := Unpack(dir, "amd64", c.take, bytes.NewReader(c.bundle), byUs)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", what, err, c.want)
			}
			continue
		}
		if b, err := os.ReadFile(filepath.Join(dir, "programs/hostler-agent")); err != nil || string(b) != c.want {
			t.Errorf("%s: the agent is %q, %v, want %q", what, b, err, c.want)
		}
		if kept, err := filepath.Glob(filepath.Join(dir, "packages/*")); err != nil || len(kept) != 1 || filepath.Base(kept[0]) != "hostler-agent."+string(r.Format) {
			t.Errorf("%s: it kept %q", what, kept)
		}
	}
}

// TestRPMBounds: what a package says of sizes is believed within bounds, and no more than is
// needed is kept of its header.
func TestRPMBounds(t *testing.T) {
	good := map[uint32]string{tagName: Agent, tagVersion: "0.2.0", tagArch: "x86_64"}
	archive := packed(t, map[string]string{"./usr/bin/hostler-agent": "agent"})
	sized := func(size string) []byte {
		return rpmOf(t, header(good), bytes.Replace(archive, []byte("00000005"), []byte(size), 1))
	}
	long := maps.Clone(good)
	long[tagVersion] = strings.Repeat("9", maxValue+1)
	for what, c := range map[string]struct {
		file []byte
		want string
	}{
		"negative":     {sized("-0000005"), "a file of -5 bytes"},
		"all":          {sized("-fffffff"), "a file of -268435455 bytes"},
		"too large":    {sized("40000001"), "more than 1073741824 bytes"},
		"long version": {rpmOf(t, header(long), archive), "its header is damaged"},
	} {
		f, err := Open(bytes.NewReader(c.file), int64(len(c.file)))
		if err == nil {
			err = f.Files(func(_ string, content io.Reader) error {
				_, err := io.Copy(io.Discard, content)
				return err
			})
		}
		if !errors.Is(err, ErrPackage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}

	// A thousand strings that are one and the same.
	head := header(map[uint32]string{tagName: Agent, tagVersion: "0.2.0", tagArch: "x86_64", 9000: strings.Repeat("x", 1<<20)})
	entries := int(binary.BigEndian.Uint32(head[8:]))
	last := head[headerIntro+(entries-1)*entrySize : headerIntro+entries*entrySize]
	many := slices.Clone(head[:headerIntro+entries*entrySize])
	for n := range 1000 {
		many = append(binary.BigEndian.AppendUint32(many, uint32(10_000+n)), last[4:]...)
	}
	binary.BigEndian.PutUint32(many[8:], uint32(entries+1000))
	file := rpmOf(t, append(many, head[headerIntro+entries*entrySize:]...), archive)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Open(bytes.NewReader(file), int64(len(file)))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > 64<<20 {
		t.Errorf("a header of %d bytes took %d of memory, %v", len(file), took, err)
	}
}

// FuzzUnpack: whatever comes, it ends, and nothing that is not signed is believed.
func FuzzUnpack(f *testing.F) {
	f.Add(bundle(f, part("a.deb", agentDeb(f, "0.2.0", "amd64")), part("b.deb", lxcDeb(f, "0.2.0"))))
	f.Add(agentDeb(f, "0.2.0", "amd64"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := filepath.Join(t.TempDir(), "release")
		r, err := Unpack(dir, "amd64", "", bytes.NewReader(b), byUs)
		if err == nil && (r.Signer != "us" || !slices.Contains(r.Programs, Agent)) {
			t.Errorf("it took %v", r)
		}
		if outside, _ := filepath.Glob(filepath.Dir(dir) + "/*"); len(outside) > 1 {
			t.Errorf("it wrote beside its directory: %q", outside)
		}
	})
}

// FuzzOpen reads packages directly, as the command line does before it is known
// whose they are.
func FuzzOpen(f *testing.F) {
	f.Add(agentDeb(f, "0.2.0", "amd64"))
	f.Add(agentRPM(f, "0.2.0", "x86_64"))
	f.Add([]byte("!<arch>\n" + member("debian-binary", []byte("2.0\n"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if !errors.Is(err, ErrPackage) {
				t.Errorf("%v is not ErrPackage", err)
			}
			return
		}
		if d.Name == "" || d.Version == "" {
			t.Errorf("it took %v", d)
		}
		err = d.Files(func(path string, content io.Reader) error {
			if !filepath.IsAbs(path) || path != filepath.Clean(path) {
				t.Errorf("a file is called %q", path)
			}
			_, err := io.Copy(io.Discard, io.LimitReader(content, 1<<20))
			return err
		})
		if err != nil && !errors.Is(err, ErrPackage) && !errors.Is(err, gzip.ErrChecksum) && !errors.Is(err, gzip.ErrHeader) && !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "flate:") {
			t.Errorf("%v is not ErrPackage", err)
		}
	})
}
