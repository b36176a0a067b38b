package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/metrics"
)

var update = flag.Bool("update", false, "write the table of doc/metrics.md")

// TestDocument holds the table of the document to the code.
func TestDocument(t *testing.T) {
	const path, begin, end = "../doc/metrics.md", "<!-- metrics -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no marks around its table", path)
	}
	var table strings.Builder
	fmt.Fprint(&table, "\n| metric | unit | of | parts | meaning |\n|---|---|---|---|---|\n")
	for _, i := range metrics.Metrics() {
		of := "host and containers"
		switch {
		case !i.OfContainer:
			of = "host"
		case !i.OfHost:
			of = "containers"
		}
		unit := string(i.Unit)
		if unit == "" {
			unit = "count"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", i.Metric, unit, of, i.Part, i.Doc)
	}
	want := head + begin + table.String() + "\n" + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(b) != want {
		t.Errorf("%s is not what this code makes; go test ./metrics -run TestDocument -update writes its table anew", path)
	}
}
