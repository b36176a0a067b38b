package main

import (
	"context"
	"crypto/tls"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWaitsForItsFleet starts a coordinator before there is a fleet. It answers what to
// do, at each step, and serves as soon as it has been done. SIGHUP does not end it
// meanwhile: it reads its configuration again when it serves.
func TestWaitsForItsFleet(t *testing.T) {
	p := newProgram(t, 1)
	if err := os.Mkdir(string(p.state), 0o700); err != nil {
		t.Fatal(err)
	}
	c, _, err := load(p.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, w := io.Pipe()
	talk, say := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"--config", p.config, "run"}, w, say)
		w.Close()
		say.Close()
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("https://" + c.HTTP.Addresses[0] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	says := reader(t, talk)
	for _, step := range []struct {
		hint string
		do   func()
	}{
		{"hostler fleet init NAME --coordinator " + string(p.state), func() {}},
		{"hostler-coordinator init --ring FILE", func() { p.do(0, "init", "--fleet", p.code()) }},
	} {
		step.do()
		says(step.hint)
		if status, text := get("/healthz"); status != http.StatusOK || text != "ok\n" {
			t.Errorf("/healthz: %d %q", status, text)
		}
		for _, path := range []string{"/readyz", "/v1/status"} {
			if status, text := get(path); status != http.StatusServiceUnavailable || !strings.Contains(text, step.hint) {
				t.Errorf("%s: %d %q, want a word about %q", path, status, text, step.hint)
			}
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	again, _ := p.do(0, "init", "--fleet", p.code())
	first := make(chan string, 1)
	go func() { // it is printed before init ends, and waits for its reader
		line := make([]byte, 512)
		n, _ := out.Read(line)
		first <- string(line[:n])
	}()
	p.do(0, "init", "--ring", p.admit(field(t, again, "request")))
	if status, text := get("/v1/status"); status != http.StatusUnauthorized {
		t.Errorf("after init the API answers a stranger with %d %s", status, text)
	}
	if line := <-first; !strings.Contains(line, "fleet demo: API on https://") {
		t.Errorf("it says %q", line)
	}
	says("msg=serving")
	says("the configuration was read again")
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit %d after a signal, want 0", code)
	}
}

// reader returns a function that reads lines until one has a text.
func reader(t *testing.T, from io.Reader) func(text string) {
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		var rest string
		b := make([]byte, 4096)
		for {
			n, err := from.Read(b)
			rest += string(b[:n])
			for {
				line, more, ok := strings.Cut(rest, "\n")
				if !ok {
					break
				}
				lines <- line
				rest = more
			}
			if err != nil {
				return
			}
		}
	}()
	return func(text string) {
		t.Helper()
		for line := range lines {
			if strings.Contains(line, text) {
				return
			}
		}
		t.Fatalf("it ended and has not said %q", text)
	}
}

// TestWaitsNoMore: who stops it while it waits stops it, and what is wrong is no
// reason to wait.
func TestWaitsNoMore(t *testing.T) {
	p := newProgram(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	talk, say := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- run(ctx, []string{"--config", p.config, "run"}, io.Discard, say); say.Close() }()
	says := reader(t, talk)
	says("not part of a fleet yet")
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit %d after a signal, want 0", code)
	}
	if err := os.MkdirAll(string(p.state), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(p.state.fleet(), "no code")
	if _, talk := p.do(1, "run"); !strings.Contains(talk, "unusable code") {
		t.Errorf("a broken code: %s", talk)
	}
}

// TestRootHandsOver: what root makes in the directory of the service's user belongs to
// that user afterwards.
func TestRootHandsOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root")
	}
	const user = 4242
	p := newProgram(t, 1)
	if err := os.Mkdir(string(p.state), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(string(p.state), user, user); err != nil {
		t.Fatal(err)
	}
	out, _ := p.do(0, "init", "--fleet", p.code())
	p.do(0, "init", "--ring", p.admit(field(t, out, "request")))
	seen := 0
	if err := filepath.WalkDir(string(p.state), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		seen++
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != user || owner.Gid != user {
			t.Errorf("%s belongs to %d:%d", path, owner.Uid, owner.Gid)
		}
		return nil
	}); err != nil || seen < 6 {
		t.Errorf("%d files: %v", seen, err)
	}
}
