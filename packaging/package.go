package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/files"
)

//go:embed files
var own embed.FS

// pkg is one package.
type pkg struct {
	name, summary, long string
	programs            []string // in /usr/bin
	helpers             []string // in /usr/libexec/hostler
	unit                bool     // it has a service, and a configuration
	joins               bool     // it is enabled when the host joins a fleet, and not before
	refreshes           string   // the service that finds something new in it
	state               string   // what goes at purge
	depends, recommends map[string][]string
	suggests            map[string][]string
}

// both are the same packages for deb and rpm.
func both(names ...string) map[string][]string {
	return map[string][]string{"deb": names, "rpm": names}
}

// fenceAgents are the programs that speak to fence devices, for those who have such devices.
func fenceAgents() map[string][]string {
	return map[string][]string{"deb": {"fence-agents"}, "rpm": {"fence-agents-all"}}
}

// system makes users and directories, also where systemd is not in charge.
func system() map[string][]string {
	return map[string][]string{
		"deb": {"systemd | systemd-standalone-sysusers", "systemd | systemd-standalone-tmpfiles", "init-system-helpers (>= 1.54)"},
		"rpm": {"systemd"},
	}
}

// EXACT stands for this very version.
const exact = "EXACT"

func packages() []pkg {
	return []pkg{
		{
			name: "hostler", summary: "run hosts and containers from anywhere",
			long:     "The program of operators: it makes the keys of a fleet, lets hosts in, runs\ncommands on hosts and in containers, and shows what there is.",
			programs: []string{"hostler"},
		}, {
			name: "hostler-agent", summary: "agent of Hostler for one host",
			long:     "It runs commands and containers of this host as its people and its coordinator\nask, and keeps them as they should be while the coordinator cannot be reached.",
			programs: []string{"hostler-agent"}, helpers: []string{"hostler-run"}, unit: true, joins: true, state: "/var/lib/hostler/agent",
			depends: system(), recommends: map[string][]string{"deb": {"dnsmasq-base", "hostler-agent-lxc", "podman"}, "rpm": {"dnsmasq", "hostler-agent-lxc", "podman"}},
			suggests: fenceAgents(),
		}, {
			name: "hostler-agent-lxc", summary: "LXC for the agent of Hostler",
			long:    "The program by which the agent makes, starts and ends LXC containers. It is the\nonly one that needs liblxc.",
			helpers: []string{helper}, refreshes: "hostler-agent",
			depends:    map[string][]string{"deb": {"hostler-agent (= " + exact + ")", "liblxc1", "libc6 (>= 2.34)"}, "rpm": {"hostler-agent = " + exact, "lxc-libs", "glibc >= 2.34"}},
			recommends: both("lxc", "busybox-static"),
		}, {
			name: "hostler-coordinator", summary: "coordinator of a fleet of Hostler",
			long:     "It tracks which hosts of a fleet are approved, what was asked of them and what\nbecame of it. It serves the API and the MQTT broker.",
			programs: []string{"hostler-coordinator"}, unit: true, state: "/var/lib/hostler/coordinator",
			depends: system(), recommends: both("hostler"), suggests: fenceAgents(),
		},
	}
}

// Words about every package.
const (
	homepage   = "https://github.com/hostler-io/hostler"
	maintainer = "Hostler maintainers <maintainers@users.noreply.github.com>"
	license    = "Apache-2.0"
)

// rpmRelease is the number of a package of one version.
const rpmRelease = "1"

// info describes a package in one format.
func (b *build) info(p pkg, bin, arch, format, spdx string) (*nfpm.Info, error) {
	scripts, err := b.scripts(p, format)
	if err != nil {
		return nil, err
	}
	contents, err := b.files(p, bin, format, spdx)
	if err != nil {
		return nil, err
	}
	version := b.version
	release := ""
	if format == "rpm" {
		release = rpmRelease
	}
	depends := make([]string, len(p.depends[format]))
	for i, d := range p.depends[format] {
		depends[i] = strings.ReplaceAll(d, exact, version)
	}
	description, changes, summary := p.long, "", strings.ToUpper(p.summary[:1])+p.summary[1:]
	if format == "deb" {
		description = p.summary + "\n" + p.long
	} else if changes, err = b.changes(); err != nil {
		return nil, err
	}
	return &nfpm.Info{
		Name: p.name, Arch: arch, Platform: "linux", Version: version, VersionSchema: "none", Release: release,
		Section: "admin", Priority: "optional", Maintainer: maintainer, Description: description, Vendor: "Hostler", Homepage: homepage, License: license,
		DisableGlobbing: true, MTime: b.date, Changelog: changes,
		Overridables: nfpm.Overridables{
			Depends: depends, Recommends: p.recommends[format], Suggests: p.suggests[format], Contents: contents, Scripts: scripts,
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: summary, Group: "System/Management"},
		},
	}, nil
}

// noChanges is what a list of changes says: the history of the sources has them.
const noChanges = "Built from the sources; what changed stands in their history."

// changes writes the list of changes of an rpm package.
func (b *build) changes() (string, error) {
	path := filepath.Join(b.work, "changes.yaml")
	return path, os.WriteFile(path, []byte(fmt.Sprintf("- semver: %q\n  date: %s\n  packager: %q\n  changes:\n    - note: %q\n",
		b.version+"-"+rpmRelease, b.date.Format(time.RFC3339), maintainer, noChanges)), 0o644)
}

// scripts writes what a package does when it comes and goes.
func (b *build) scripts(p pkg, format string) (s nfpm.Scripts, err error) {
	write := func(name string) string {
		if err != nil {
			return ""
		}
		var t *template.Template
		if t, err = template.ParseFS(own, "files/"+name); err != nil {
			return ""
		}
		path := filepath.Join(b.work, p.name+"."+name)
		var f *os.File
		if f, err = os.Create(path); err != nil {
			return ""
		}
		defer f.Close()
		err = t.Execute(f, map[string]any{"Name": p.name, "Version": b.version, "Unit": p.unit, "Joins": p.joins, "Refreshes": p.refreshes, "State": p.state})
		return path
	}
	switch {
	case format == "deb" && p.unit:
		s.PreInstall, s.PostInstall, s.PreRemove, s.PostRemove = write("deb.preinst"), write("deb.postinst"), write("deb.prerm"), write("deb.postrm")
	case format == "deb" && p.refreshes != "":
		s.PostInstall, s.PostRemove = write("deb.postinst"), write("deb.postrm")
	case format == "rpm" && p.unit:
		s.PreInstall, s.PostInstall, s.PreRemove = write("rpm.pre"), write("rpm.post"), write("rpm.preun")
	case format == "rpm" && p.refreshes != "":
		s.PostInstall = write("rpm.post")
	}
	return s, err
}

// files lists what a package puts where.
func (b *build) files(p pkg, bin, format, spdx string) (files.Contents, error) {
	var all files.Contents
	add := func(from, to string, mode os.FileMode) {
		all = append(all, &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: b.date, Owner: "root", Group: "root"}})
	}
	// rpm knows by a mark what may be left out of an installation.
	mark := func(as string) {
		if format == "rpm" {
			all[len(all)-1].Type = as
		}
	}
	static := func(name, to string) error {
		raw, err := own.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		path := filepath.Join(b.work, name)
		add(path, to, 0o644)
		return os.WriteFile(path, raw, 0o644)
	}
	for _, h := range p.helpers {
		add(filepath.Join(bin, h), "/usr/libexec/hostler/"+h, 0o755)
	}
	for _, name := range p.programs {
		add(filepath.Join(bin, name), "/usr/bin/"+name, 0o755)
		add(filepath.Join(b.docs(), name+".bash"), "/usr/share/bash-completion/completions/"+name, 0o644)
		add(filepath.Join(b.docs(), name+".zsh"), "/usr/share/zsh/"+map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[format]+"/_"+name, 0o644)
		add(filepath.Join(b.docs(), name+".fish"), "/usr/share/fish/vendor_completions.d/"+name+".fish", 0o644)
		pages, err := os.ReadDir(filepath.Join(b.docs(), name+".man"))
		if err != nil {
			return nil, err
		}
		for _, page := range pages {
			text, err := os.ReadFile(filepath.Join(b.docs(), name+".man", page.Name()))
			if err != nil {
				return nil, err
			}
			path, err := b.zipped("man/"+page.Name()+".gz", text)
			if err != nil {
				return nil, err
			}
			add(path, "/usr/share/man/man"+strings.TrimPrefix(filepath.Ext(page.Name()), ".")+"/"+page.Name()+".gz", 0o644)
			mark(files.TypeRPMDoc)
		}
	}
	if p.unit {
		short := strings.TrimPrefix(p.name, "hostler-")
		units := map[string]string{"deb": "/lib/systemd/system/", "rpm": "/usr/lib/systemd/system/"}[format]
		for name, to := range map[string]string{".service": units + p.name + ".service", ".sysusers": "/usr/lib/sysusers.d/" + p.name + ".conf", ".tmpfiles": "/usr/lib/tmpfiles.d/" + p.name + ".conf"} {
			if err := static(p.name+name, to); err != nil {
				return nil, err
			}
		}
		add(filepath.Join(b.docs(), short+".toml"), "/etc/hostler/"+short+".toml", 0o644)
		all[len(all)-1].Type = files.TypeConfigNoReplace
		all = append(all, &files.Content{Destination: "/etc/hostler/" + short + ".d", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: b.date, Owner: "root", Group: "root"}})
	}
	if format == "deb" {
		text := ""
		for _, program := range p.programs {
			text += p.name + ": statically-linked-binary [usr/bin/" + program + "]\n"
		}
		for _, h := range p.helpers {
			if h != helper {
				text += p.name + ": statically-linked-binary [usr/libexec/hostler/" + h + "]\n"
			}
		}
		if text != "" {
			path := filepath.Join(b.work, p.name+".lintian")
			if err := os.WriteFile(path, []byte("# Programs of Go carry what they need, and run where nothing else is.\n"+text), 0o644); err != nil {
				return nil, err
			}
			add(path, "/usr/share/lintian/overrides/"+p.name, 0o644)
		}
	}
	doc := "/usr/share/doc/" + p.name + "/"
	add(spdx, doc+p.name+".spdx.json", 0o644)
	mark(files.TypeRPMDoc)
	changes, err := b.zipped(p.name+".changelog.gz", []byte(fmt.Sprintf("%s (%s) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n",
		p.name, b.version, noChanges, maintainer, b.date.Format("Mon, 02 Jan 2006 15:04:05 -0700"))))
	if err != nil {
		return nil, err
	}
	add(changes, doc+"changelog.gz", 0o644)
	mark(files.TypeRPMDoc)
	if err := static("copyright", doc+"copyright"); err != nil {
		return nil, err
	}
	mark(files.TypeRPMDoc)
	return all, nil
}
