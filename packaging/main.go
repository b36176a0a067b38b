// Packaging builds the deb and rpm packages of Hostler, with their list of contents in
// SPDX and their sums. The same commit gives the same bytes, on any machine with the
// same Go.
//
//	go run -C packaging . --out ../dist
//
// It is a module of its own, so that the library that writes packages, and the
// hundreds behind it, are no part of Hostler.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := flag.String("root", "..", "the tree to build")
	out := flag.String("out", "../dist", "where packages go; what is there is removed")
	arches := flag.String("arch", "amd64,arm64", "architectures, with commas between them")
	flag.Parse()
	if err := run(ctx, *root, *out, strings.Split(*arches, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		stop()
		os.Exit(1)
	}
}

// build is one run.
type build struct {
	ctx     context.Context
	root    string // of the tree
	work    string // a directory that goes with the run
	out     string
	version string
	date    time.Time // of the commit
	missing []string  // packages that cannot be built here
}

func run(ctx context.Context, root, out string, arches []string) (err error) {
	b := &build{ctx: ctx}
	if b.root, err = filepath.Abs(root); err != nil {
		return err
	}
	if b.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if b.version, b.date, err = describe(ctx, b.root); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp("", "hostler-packages-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	if err := errors.Join(os.RemoveAll(b.out), os.MkdirAll(b.out, 0o755)); err != nil {
		return err
	}
	if err := b.documents(); err != nil {
		return err
	}
	for _, arch := range arches {
		if err := b.arch(arch); err != nil {
			return err
		}
	}
	err = b.sums()
	for _, m := range b.missing {
		err = errors.Join(err, fmt.Errorf("not built: %s", m))
	}
	return err
}

// describe returns the version of a tree and the date of its commit. A commit that is
// no release counts as one before it; a tree with changes says so.
func describe(ctx context.Context, root string) (string, time.Time, error) {
	source, err := os.ReadFile(filepath.Join(root, "internal/buildinfo/buildinfo.go"))
	if err != nil {
		return "", time.Time{}, err
	}
	found := regexp.MustCompile(`(?m)^var Version = "([0-9.]+)"$`).FindSubmatch(source)
	if found == nil {
		return "", time.Time{}, errors.New("internal/buildinfo has no version")
	}
	version := string(found[1])
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", args[0], err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	tags, err := git("tag", "--points-at", "HEAD")
	if err != nil {
		return "", time.Time{}, err
	}
	if !slices.Contains(strings.Fields(tags), "v"+version) {
		count, err := git("rev-list", "--count", "HEAD")
		if err != nil {
			return "", time.Time{}, err
		}
		commit, err := git("rev-parse", "--short=12", "HEAD")
		if err != nil {
			return "", time.Time{}, err
		}
		version += "~" + count + "." + commit
	}
	changes, err := git("status", "--porcelain")
	if err != nil {
		return "", time.Time{}, err
	}
	if changes != "" {
		version += "+dirty"
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = git("log", "-1", "--format=%ct"); err != nil {
			return "", time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return version, time.Unix(seconds, 0).UTC(), nil
}

// command runs a program in the tree.
func (b *build) command(environ []string, name string, args ...string) error {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// pure are the programs without cgo.
var pure = []string{"hostler", "hostler-agent", "hostler-coordinator", "hostler-run"}

// helper is the program with cgo, and cross are the compilers for it that are not the
// machine's own.
const helper = "hostler-lxc"

var cross = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// compile builds programs into a directory.
func (b *build) compile(dir string, environ []string, programs ...string) error {
	flags := "-s -w -X github.com/hostler-io/hostler/internal/buildinfo.Version=" + b.version
	args := []string{"build", "-trimpath", "-ldflags", flags, "-o", dir + "/"}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	return b.command(environ, "go", args...)
}

// documents writes what the programs say about themselves, as those of this machine
// say it.
func (b *build) documents() error {
	host, docs := filepath.Join(b.work, "host"), b.docs()
	if err := b.compile(host, []string{"CGO_ENABLED=0"}, "hostler", "hostler-agent", "hostler-coordinator"); err != nil {
		return err
	}
	if err := os.MkdirAll(docs, 0o755); err != nil {
		return err
	}
	write := func(name, program string, args ...string) error {
		out, err := exec.CommandContext(b.ctx, filepath.Join(host, program), args...).Output()
		if err != nil {
			return fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
		}
		return os.WriteFile(filepath.Join(docs, name), out, 0o644)
	}
	for _, program := range []string{"hostler", "hostler-agent", "hostler-coordinator"} {
		man := filepath.Join(docs, program+".man")
		if err := os.MkdirAll(man, 0o755); err != nil {
			return err
		}
		if err := b.command(nil, filepath.Join(host, program), "manual", man); err != nil {
			return err
		}
		for _, shell := range []string{"bash", "zsh", "fish"} {
			if err := write(program+"."+shell, program, "completion", shell); err != nil {
				return err
			}
		}
	}
	return errors.Join(write("agent.toml", "hostler-agent", "config", "example"), write("coordinator.toml", "hostler-coordinator", "config", "example"))
}

func (b *build) docs() string { return filepath.Join(b.work, "docs") }

// arch builds all packages of an architecture. The helper needs liblxc of that
// architecture, and a compiler.
func (b *build) arch(arch string) error {
	bin := filepath.Join(b.work, arch)
	if err := b.compile(bin, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch}, pure...); err != nil {
		return err
	}
	all := packages()
	if err := b.helper(bin, arch); err != nil {
		b.missing = append(b.missing, "hostler-agent-lxc for "+arch+": "+err.Error())
		all = slices.DeleteFunc(all, func(p pkg) bool { return p.name == "hostler-agent-lxc" })
	}
	for _, p := range all {
		spdx, err := b.contents(p, bin, arch)
		if err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm"} {
			info, err := b.info(p, bin, arch, format, spdx)
			if err != nil {
				return err
			}
			if err := b.write(info, format); err != nil {
				return fmt.Errorf("%s for %s as %s: %w", p.name, arch, format, err)
			}
		}
	}
	return nil
}

// helper builds the program with cgo.
func (b *build) helper(bin, arch string) error {
	own, err := exec.CommandContext(b.ctx, "go", "env", "GOHOSTARCH").Output()
	if err != nil {
		return err
	}
	environ := []string{"CGO_ENABLED=1", "GOOS=linux", "GOARCH=" + arch}
	if strings.TrimSpace(string(own)) != arch {
		if arch != "arm64" {
			return errors.New("there is no way to get liblxc of " + arch + " here")
		}
		if _, err := exec.LookPath(cross[arch]); err != nil {
			return errors.New(cross[arch] + " is missing: apt-get install gcc-aarch64-linux-gnu")
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		root := filepath.Join(cache, "hostler-sysroot-"+arch)
		if err := b.command(nil, filepath.Join(b.root, "scripts/arm64-sysroot.sh"), root); err != nil {
			return err
		}
		environ = append(environ, "CC="+cross[arch], "CGO_LDFLAGS=-Wl,--allow-shlib-undefined",
			"PKG_CONFIG_SYSROOT_DIR="+root+"/root", "PKG_CONFIG_LIBDIR="+root+"/root/usr/lib/aarch64-linux-gnu/pkgconfig")
	}
	return b.compile(bin, environ, helper)
}

// write makes one file of a package.
func (b *build) write(info *nfpm.Info, format string) error {
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(b.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, f), f.Close())
}

// sums writes the SHA-256 of every file, as sha256sum --check reads it.
func (b *build) sums() error {
	entries, err := os.ReadDir(b.out)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(b.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(raw), e.Name())
	}
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), text.Bytes(), 0o644)
}

// zipped writes a text as gzip, without name and date.
func (b *build) zipped(name string, text []byte) (string, error) {
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(text); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	path := filepath.Join(b.work, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, z.Bytes(), 0o644)
}
