package influx_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runDashboard asks each query of a dashboard of doc/grafana, with its variables filled
// in as Grafana does.
func runDashboard(t *testing.T, name string, found func(query string) bool) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "doc", "grafana", name))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Query, Expr string }
		}
		Templating struct {
			List []struct{ Name string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	if len(board.Panels) < 8 {
		t.Fatalf("%s has %d panels", name, len(board.Panels))
	}
	left := regexp.MustCompile(`\$\w`)
	fill := strings.NewReplacer("$timeFilter", "time > now() - 1h", "$__interval", "1m", "$host", "edge-07", "$container", "web", "$__rate_interval", "1m")
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("%s: the panel %s asks for nothing", name, p.Title)
		}
		for _, target := range p.Targets {
			if q := fill.Replace(target.Query + target.Expr); left.MatchString(q) || !found(q) {
				t.Errorf("%s: %s finds nothing: %s", name, p.Title, q)
			}
		}
	}
}
