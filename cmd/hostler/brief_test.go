package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hostler-io/hostler/internal/brief"
)

// TestErrorsAreBrief: an error repeats at most 200 characters of the command line.
func TestErrorsAreBrief(t *testing.T) {
	for _, long := range []string{strings.Repeat("x", 3000), strings.Repeat("many words ", 300)} {
		for _, args := range [][]string{
			{long}, {"host", long}, {"host", "show", "--" + long}, {"host", "ls", "--limit", long}, {"host", "ls", "--limit=" + long},
			{"host", "ls", "-o", long}, {"login", long}, {"login", "https://" + long, "--token", "x"}, {"run", long}, {"run", "-l", long, "--", "true"},
			{"host", "show", long, "--address", long}, {"host", "show", "a", "--context", long}, {"host", "show", "a", "--socket", "/" + long},
			{"run", "--timeout", long, "a", "--", "true"}, {"policy", "check", long}, {"fleet", "init", long}, {"verify", long}, {"batch", "run", long},
			{"token", "create", long, "--ttl", long}, {"push", long, "a:/x"}, {"pull", long, "x"}, {"exec", long, "--", "true"}, {"ct", "create", long},
			{"action", "show", long}, {"completion", long}, {"help", long}, {"explain", long}, {"key", "show", long},
		} {
			cmd := exec.CommandContext(t.Context(), "hostler", args...)
			cmd.Env, cmd.Dir = []string{"HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + filepath.Join(t.TempDir(), "none")}, t.TempDir()
			said, err := cmd.CombinedOutput()
			if err == nil {
				t.Errorf("%.60q is taken: %s", args, said)
			}
			if strings.Contains(string(said), long[:brief.Most+1]) || utf8.RuneCount(said) > 1500 {
				t.Errorf("%.60q says %d characters: %.1000s", args, utf8.RuneCount(said), said)
			}
		}
	}
}
