package manual_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/manual"
)

func TestPages(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "Long.\n.dots at the\n'beginning\\."}
	root.PersistentFlags().Bool("loud", false, "say more")
	below := &cobra.Command{Use: "a-b X", Short: "Do one thing", Example: "  tool a-b 1", Run: func(*cobra.Command, []string) {}}
	below.Flags().Int("n", 1, "how many")
	hidden := &cobra.Command{Use: "hidden", Hidden: true, Run: func(*cobra.Command, []string) {}}
	root.AddCommand(below, hidden)
	dir := t.TempDir()
	if err := manual.Write(dir, root, 8, "1.2"); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"tool.8": {".TH \"TOOL\" \"8\" \"\" \"Hostler 1.2\"", ".SH NAME\ntool \\- Do things\n", "Long.\n\\&.dots at the\n\\&'beginning\\e.\n.fi", "\\-\\-loud", ".BR tool\\-a\\-b (8)\n"},
		"tool-a-b.8": {".SH SYNOPSIS\n\\fBtool a\\-b X", ".SH DESCRIPTION\n.nf\nDo one thing.\n", "\\-\\-n int", ".SH OPTIONS OF ALL COMMANDS\n.nf\n      \\-\\-loud", ".SH EXAMPLES\n.nf\n  tool a\\-b 1\n",
			".SH SEE ALSO\n.BR tool (8)\n"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			if !strings.Contains(string(b), p) {
				t.Errorf("%s lacks %q:\n%s", name, p, b)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%d pages: %v", len(entries), err)
	}
}
