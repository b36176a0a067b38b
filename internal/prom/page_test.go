package prom_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of doc/metrics.md anew")

// declared finds the metrics that the files of a pattern declare, as rows of a table by
// their names. Those that are named when they are written are in the tables of what is
// measured and of hosts.
func declared(t *testing.T, prefix, pattern string, rows map[string]string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %q, %v", pattern, paths, err)
	}
	text := func(e ast.Expr) string {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				return s
			}
		}
		return ""
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			how, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Gauge", "GaugeBy", "Gauges", "Counter", "CounterBy"}, how.Sel.Name) {
				return true
			}
			name, help := text(call.Args[0]), text(call.Args[1])
			if name == "" {
				return true
			}
			if help == "" {
				t.Errorf("%s: %s has no text", path, name)
			}
			var labels []string
			switch l := call.Args[2].(type) {
			case *ast.CompositeLit:
				for _, e := range l.Elts {
					labels = append(labels, "`"+text(e)+"`")
				}
			case *ast.BasicLit:
				if s := text(l); s != "" {
					labels = []string{"`" + s + "`"}
				}
			}
			kind := "gauge"
			if strings.HasPrefix(how.Sel.Name, "Counter") {
				kind = "counter"
			}
			rows[prefix+name] = fmt.Sprintf("| `%s%s` | %s | %s | %s |\n", prefix, name, kind, strings.Join(labels, ", "), help)
			return true
		})
	}
}

// TestPage holds doc/metrics.md to what the programs write. With -update it writes the
// tables.
func TestPage(t *testing.T) {
	const path = "../../doc/metrics.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, of := range []struct {
		table, prefix string
		patterns      []string
	}{
		{"coordinator", "hostler_coordinator_", []string{"coordinator/web/fleet.go", "cmd/hostler-coordinator/*.go", "metrics/influx/destination/*.go"}},
		{"fleet", "hostler_fleet_", []string{"coordinator/scrape/scrape.go"}},
		{"agent", "hostler_agent_", []string{"agent/local/*.go", "cmd/hostler-agent/*.go", "metrics/influx/destination/*.go"}},
	} {
		rows := make(map[string]string)
		for _, pattern := range of.patterns {
			declared(t, of.prefix, pattern, rows)
		}
		if len(rows) < 5 {
			t.Errorf("%s: only %d metrics are found: %v", of.table, len(rows), rows)
		}
		var b strings.Builder
		b.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			b.WriteString(rows[name])
		}
		b.WriteString("\n")
		begin := "<!-- metrics of the " + of.table + " -->\n"
		head, rest, ok := strings.Cut(page, begin)
		was, tail, there := strings.Cut(rest, "<!-- end -->")
		switch {
		case !ok || !there:
			t.Fatalf("%s has no place for the metrics of the %s", path, of.table)
		case *update:
			page = head + begin + b.String() + "<!-- end -->" + tail
		case was != b.String():
			t.Errorf("%s has other metrics of the %s: run go test ./internal/prom -run TestPage -update", path, of.table)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
