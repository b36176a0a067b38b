//go:build integration

package integration

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// unpack reads a bundle: its files by name.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = string(b)
	}
}

// TestBundle plants secrets wherever people and programs put texts, and looks for them in
// the bundles of the fleet and of the host, with and without those that answer.
func TestBundle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	secrets := []string{w.token}
	// plant makes a word that is nowhere else.
	plant := func(name string) string {
		word := "sesame-" + name
		secrets = append(secrets, word)
		return word
	}
	secrets = append(secrets, w.invite(t, "--label", "note=token="+plant("in-an-invite")))
	made := w.must(t, "token", "create", "alice", "-o", "json")
	for field := range strings.FieldsFuncSeq(made, func(r rune) bool { return strings.ContainsRune("\"\n ,:{}", r) }) {
		if strings.HasPrefix(field, "hst_") || strings.HasPrefix(field, "hl1_") {
			secrets = append(secrets, field)
		}
	}
	secrets = append(secrets, field(t, w.must(t, "fleet", "show"), "code"))
	pem := "-----BEGIN EC PRIVATE KEY-----\n" + plant("key") + "\n-----END EC PRIVATE KEY-----\n"
	w.must(t, "run", "edge-01", "--env", "PASSWORD="+plant("env"), "--secret-env", "TOKEN="+plant("sealed"), "--", "echo", pem,
		"https://bob:"+plant("url")+"@db.example.org/", "password="+plant("argv"), "Authorization: Bearer "+plant("bearer"))
	w.must(t, "host", "set", "edge-01", "--label", "db=https://bob:"+plant("label")+"@db.example.org/", "--label", "note=hst_SESAMEINALABEL22222222222")
	secrets = append(secrets, "SESAMEINALABEL")
	w.newHost(t, "edge-02", false).join(t, w.invite(t))
	w.must(t, "host", "deny", "edge-02", "--reason", "it sent secret="+plant("reason")+" to bob:"+plant("userinfo")+"@db "+pem)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.must(t, "ct", "set", "edge-01/web", "--health-interval", "1s", "--health-retries", "1", "--health-action", "mark", "--health-cmd", "--", "sh", "-c", "echo db_password="+plant("alert")+" is refused; exit 3")
	w.container(t, "edge-01/web", "is unhealthy", func(c ct) bool { return c.Health == "unhealthy" })
	for _, of := range []string{"edge-01", "edge-02"} {
		if out := w.must(t, "host", "show", of, "-o", "json"); !strings.Contains(out, "sesame-") {
			t.Errorf("nothing is planted on %s: %s", of, out)
		}
	}

	// judge looks at a bundle: it holds what was listed, and no secret.
	judge := func(r result, path string, holds map[string]string) {
		t.Helper()
		r.exits(t, 0)
		files := unpack(t, path)
		for name, text := range files {
			if !strings.Contains(r.stderr, "\n  "+name+" ") {
				t.Errorf("%s is in %s and was not listed: %s", name, path, r.stderr)
			}
			for _, s := range secrets {
				if strings.Contains(text, s) {
					t.Errorf("%s of %s holds the secret %s", name, path, s)
				}
			}
		}
		for name, want := range holds {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s of %s does not hold %q:\n%.2000s", name, path, want, files[name])
			}
		}
	}
	fleet, host := w.path("fleet.tar.gz"), w.path("host.tar.gz")
	refused := w.cli(t, "support-bundle", fleet).exits(t, 4, "will hold", "rerun with --yes")
	if _, err := os.Stat(fleet); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a bundle that nobody wanted: %v: %s", err, refused.stderr)
	}
	judge(w.cli(t, "support-bundle", fleet, "--yes"), fleet, map[string]string{
		"hosts.json": `db=https://[redacted]@db.example.org/`, "enrolments.json": "it sent secret=[redacted]", "actions.json": `"host.run"`, "audit.json": `"token:admin"`,
		"findings.json": `_password=[redacted] is refused`, "status.json": `"fleet": "lab"`, "metrics.txt": "hostler_coordinator_", "machine.json": w.url(), "version.json": `"version": "0.`,
	})
	judge(h.local(t, "--local", "support-bundle", host, "--yes"), host, map[string]string{
		"config.txt": "host = edge-01   # " + h.config(), "fsck.txt": "0 found, 0 left\n", "check.json": `"memory"`, "status.json": `"connection": "online"`, "containers.json": `"web"`, "log.txt": "",
	})

	// What can be had without the other end is had.
	w.coordinator.end(t, term)
	away := w.path("away.tar.gz")
	judge(w.cli(t, "support-bundle", away, "--yes").exits(t, 0, "the coordinator does not answer"), away, map[string]string{
		"findings.json": `"failed"`, "hosts.json": `"error"`, "machine.json": w.url(), "version.json": `"version": "0.`,
	})
	h.agent.end(t, term)
	alone := w.path("alone.tar.gz")
	judge(h.local(t, "--local", "support-bundle", alone, "--yes").exits(t, 0, "the agent does not answer"), alone, map[string]string{
		"config.txt": `"error"`, "status.json": `"error"`, "version.json": `"version": "0.`,
	})
	if slices.Contains(secrets, "") {
		t.Errorf("a secret is empty: %q", secrets)
	}
}
