package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dist is what `make package` has built.
const dist = "../dist"

// output runs a program, which must succeed, and returns what it said.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// built returns the file of a package for amd64.
func built(t *testing.T, name, format string) string {
	t.Helper()
	pattern := map[string]string{"deb": name + "_*_amd64.deb", "rpm": name + "-[0-9]*.x86_64.rpm"}[format]
	found, err := filepath.Glob(filepath.Join(dist, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s holds %q as %s of %s, want one; run make package: %v", dist, found, format, name, err)
	}
	return found[0]
}

// TestVersions: a release has its number, every other tree says what it is.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		output(t, "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, args...)...)
	}
	source := filepath.Join(dir, "internal/buildinfo/buildinfo.go")
	if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, []byte("package buildinfo\n\nvar Version = \"1.2.3\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	var versions []string
	is := func(pattern string) {
		t.Helper()
		version, _, err := describe(context.Background(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(pattern).MatchString(version) {
			t.Errorf("version %q, want %s", version, pattern)
		}
		versions = append(versions, version)
	}
	is(`^1\.2\.3~1\.[0-9a-f]{12}$`)
	git("commit", "-q", "--allow-empty", "-m", "second")
	is(`^1\.2\.3~2\.[0-9a-f]{12}$`)
	git("tag", "v1.2.3")
	is(`^1\.2\.3$`)
	if err := os.WriteFile(source, []byte("package buildinfo\n\nvar Version = \"1.2.4\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	is(`^1\.2\.4~2\.[0-9a-f]{12}\+dirty$`)
	for i := 1; i < len(versions); i++ {
		output(t, "dpkg", "--compare-versions", versions[i-1], "lt", versions[i])
	}
}

func TestLintian(t *testing.T) {
	args := []string{"--fail-on", "error", "--display-level", "=error"}
	for _, p := range packages() {
		args = append(args, built(t, p.name, "deb"))
	}
	if out := output(t, "lintian", args...); strings.Contains(out, "E: ") {
		t.Error(out)
	}
}

// TestRPMLint: rpmlint finds no error but those of its own that say nothing of a package here.
func TestRPMLint(t *testing.T) {
	config := filepath.Join(t.TempDir(), "rpmlint.toml")
	if err := os.WriteFile(config, []byte(`CompressExtension = "gz"
ValidLicenses = ["Apache-2.0"]
Filters = [
    "no-signature", # the sums of all packages are signed, see TestSignedSums
    "no-binary", # the classes of files that it looks for are no part of packages by nfpm
    "explicit-lib-dependency lxc-libs", # nfpm looks for no libraries
]
`), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"--config", config}
	for _, p := range packages() {
		args = append(args, built(t, p.name, "rpm"))
	}
	out, err := exec.CommandContext(t.Context(), "rpmlint", args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), ": E: ") || !strings.Contains(string(out), fmt.Sprintf("%d packages and 0 specfiles checked; 0 errors", len(packages()))) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestUnits: the coordinator is shut in. The agent's unit is inherited by every
// command, so that nothing of the kind stands in it.
func TestUnits(t *testing.T) {
	const most = "30" // 3.0 of 10
	out := output(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+most, "files/hostler-coordinator.service")
	t.Log(regexp.MustCompile(`Overall exposure.*`).FindString(out))
	agent, err := os.ReadFile("files/hostler-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Type=notify", "WatchdogSec=", "ExecReload=", "Delegate=yes", "KillMode=process", "OOMPolicy=continue"} {
		if !strings.Contains(string(agent), "\n"+want) {
			t.Errorf("the unit of the agent has no %s", want)
		}
	}
	for _, name := range []string{"agent", "coordinator"} {
		text, err := os.ReadFile("files/hostler-" + name + ".service")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "network-online") {
			t.Errorf("the unit of the %s waits for the network", name)
		}
	}
	if found := regexp.MustCompile(`(?m)^(Private|Protect|NoNewPriv|ReadOnly|Inaccessible|Bind|Mount|Restrict|SystemCall|Root|User=|Temporary|Dynamic|UMask|OOMScore).*`).FindAllString(string(agent), -1); found != nil {
		t.Errorf("commands inherit %q", found)
	}
}

// TestContents: each package holds what people look for, as deb and as rpm.
func TestContents(t *testing.T) {
	for _, p := range packages() {
		deb := output(t, "dpkg-deb", "-c", built(t, p.name, "deb"))
		rpm := output(t, "rpm", "-qpl", built(t, p.name, "rpm"))
		want := []string{"/usr/share/doc/" + p.name + "/copyright", "/usr/share/doc/" + p.name + "/" + p.name + ".spdx.json"}
		for _, program := range p.programs {
			section := "1"
			if p.unit {
				section = "8"
			}
			want = append(want, "/usr/bin/"+program, "/usr/share/man/man"+section+"/"+program+"."+section+".gz", "/usr/share/bash-completion/completions/"+program,
				"/_"+program, "/usr/share/fish/vendor_completions.d/"+program+".fish")
		}
		for _, h := range p.helpers {
			want = append(want, "/usr/libexec/hostler/"+h)
		}
		if p.unit {
			short := strings.TrimPrefix(p.name, "hostler-")
			want = append(want, "/lib/systemd/system/"+p.name+".service", "/usr/lib/sysusers.d/"+p.name+".conf", "/usr/lib/tmpfiles.d/"+p.name+".conf", "/etc/hostler/"+short+".toml", "/etc/hostler/"+short+".d")
			if conf := output(t, "dpkg-deb", "-I", built(t, p.name, "deb"), "conffiles"); conf != "/etc/hostler/"+short+".toml\n" {
				t.Errorf("configuration of %s: %q", p.name, conf)
			}
		}
		for _, w := range want {
			if !strings.Contains(deb, w) || !strings.Contains(rpm, w) {
				t.Errorf("%s lacks %s, as deb or as rpm", p.name, w)
			}
		}
	}
	depends := output(t, "dpkg-deb", "-f", built(t, "hostler-agent-lxc", "deb"), "Depends")
	recommends := output(t, "dpkg-deb", "-f", built(t, "hostler-agent", "deb"), "Recommends")
	if !strings.Contains(depends, "liblxc1") || recommends != "dnsmasq-base, hostler-agent-lxc, podman\n" {
		t.Errorf("hostler-agent-lxc depends on %q, hostler-agent recommends %q", depends, recommends)
	}
	for _, name := range []string{"hostler-agent", "hostler-coordinator"} {
		deb, rpm := output(t, "dpkg-deb", "-f", built(t, name, "deb"), "Suggests"), output(t, "rpm", "-qp", "--suggests", built(t, name, "rpm"))
		if deb != "fence-agents\n" || rpm != "fence-agents-all\n" {
			t.Errorf("%s suggests %q as deb, %q as rpm", name, deb, rpm)
		}
	}
}

// TestListOfParts reads a list as SPDX has it.
func TestListOfParts(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(dist, "hostler-coordinator_*_amd64.spdx.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	raw, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var d spdxDocument
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, p := range d.Packages {
		if ids[p.ID] || !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(p.ID) {
			t.Errorf("id %q is no id, or there twice", p.ID)
		}
		ids[p.ID] = true
	}
	for _, r := range d.Relationships {
		if !ids[r.To] || r.From != d.ID && !ids[r.From] {
			t.Errorf("%+v names something unknown", r)
		}
	}
	if !slices.ContainsFunc(d.Packages, func(p spdxPackage) bool {
		return p.Name == "modernc.org/sqlite" && p.Version != "" && len(p.Checksums) == 1
	}) {
		t.Error("the database is not listed")
	}
}

// TestRPM installs into a root of its own, as far as rpm can on a Debian: what it
// depends on is not there, and scripts are those of systemd.
func TestRPM(t *testing.T) {
	root := t.TempDir()
	for _, p := range packages() {
		output(t, "rpm", "--root", root, "--dbpath", "/db", "-i", "--nodeps", "--noscripts", "--ignorearch", built(t, p.name, "rpm"))
	}
	if out := output(t, "rpm", "--root", root, "--dbpath", "/db", "-V", "--nodeps", "--noscripts", "--nouser", "--nogroup", "hostler", "hostler-agent", "hostler-agent-lxc", "hostler-coordinator"); out != "" {
		t.Errorf("what was installed differs from the package:\n%s", out)
	}
	for _, program := range []string{"hostler", "hostler-agent", "hostler-coordinator"} {
		if out := output(t, filepath.Join(root, "usr/bin", program), "version"); !strings.HasPrefix(out, program+" ") {
			t.Errorf("%s says %q", program, out)
		}
	}
	output(t, filepath.Join(root, "usr/bin/hostler-agent"), "--config", filepath.Join(root, "etc/hostler/agent.toml"), "config", "check")
	output(t, filepath.Join(root, "usr/bin/hostler-coordinator"), "--config", filepath.Join(root, "etc/hostler/coordinator.toml"), "config", "check")
}

// TestCompletion loads the completions into their shells.
func TestCompletion(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"hostler", "hostler-agent", "hostler-coordinator"} {
		output(t, "dpkg-deb", "-x", built(t, name, "deb"), root)
		output(t, "bash", "-n", filepath.Join(root, "usr/share/bash-completion/completions", name))
		output(t, "zsh", "-n", filepath.Join(root, "usr/share/zsh/vendor-completions/_"+name))
		output(t, "fish", "-n", filepath.Join(root, "usr/share/fish/vendor_completions.d", name+".fish"))
	}
	pages, err := filepath.Glob(filepath.Join(root, "usr/share/man/man[18]/*.gz"))
	if err != nil || len(pages) < 100 {
		t.Errorf("%d pages, %v", len(pages), err)
	}
}

// TestSignedSums has a key sign the sums of packages, by the line that make package KEY=NAME
// runs. The signature is good for gpg, and for no other sums.
func TestSignedSums(t *testing.T) {
	dir := t.TempDir()
	config, gnupg := filepath.Join(dir, "config"), filepath.Join(dir, "gnupg")
	if err := errors.Join(os.Mkdir(config, 0o700), os.Mkdir(gnupg, 0o700)); err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), "XDG_CONFIG_HOME="+config, "GNUPGHOME="+gnupg, "GOENV="+strings.TrimSpace(output(t, "go", "env", "GOENV")))
	try := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = "..", environ
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	do := func(name string, args ...string) string {
		t.Helper()
		out, err := try(name, args...)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return out
	}
	output(t, "dpkg-deb", "-x", built(t, "hostler", "deb"), dir)
	program := filepath.Join(dir, "usr/bin/hostler")
	do(program, "key", "generate", "releases", "--no-passphrase")
	do(program, "key", "export", "releases", "--out", filepath.Join(dir, "releases.asc"))
	do("gpg", "--batch", "--import", filepath.Join(dir, "releases.asc"))

	recipe := strings.Split(strings.TrimSpace(do("make", "-n", "--no-print-directory", "package", "KEY=releases")), "\n")
	line, sums, sig := recipe[len(recipe)-1], filepath.Join(dist, "SHA256SUMS"), filepath.Join(dist, "SHA256SUMS.sig")
	if !strings.Contains(line, " key sign dist/SHA256SUMS ") {
		t.Fatalf("with KEY, make package ends with %q", line)
	}
	t.Cleanup(func() {
		if err := os.Remove(sig); err != nil {
			t.Error(err)
		}
	})
	do("bash", "-c", line)
	signed, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(dir, "changed")
	if err := os.WriteFile(changed, append(signed, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	do("gpg", "--batch", "--verify", "dist/SHA256SUMS.sig", "dist/SHA256SUMS")
	if out, err := try("gpg", "--batch", "--verify", "dist/SHA256SUMS.sig", changed); err == nil || !strings.Contains(out, "BAD signature") {
		t.Errorf("over other sums gpg says %v: %s", err, out)
	}
	do("bash", "-c", "cd dist && sha256sum --quiet --check SHA256SUMS")
}
