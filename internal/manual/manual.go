// Package manual writes the pages of man(1) from the commands of a program, so that
// help and pages say the same.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Command returns a command that is not listed: packages call it while they are built.
// section is that of man: 1 for people's programs, 8 for those of administrators.
func Command(section int, version string) *cobra.Command {
	return &cobra.Command{
		Use: "manual DIR", Short: "Write the pages of man(1), one for each command", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return Write(args[0], cmd.Root(), section, version)
		},
	}
}

// Write makes a file in dir for a command and for each command below it.
func Write(dir string, cmd *cobra.Command, section int, version string) error {
	path := filepath.Join(dir, fmt.Sprintf("%s.%d", name(cmd), section))
	if err := os.WriteFile(path, []byte(page(cmd, section, version)), 0o644); err != nil {
		return fmt.Errorf("write a page: %w", err)
	}
	for _, below := range listed(cmd) {
		if err := Write(dir, below, section, version); err != nil {
			return err
		}
	}
	return nil
}

// name is that of the page: hostler-host-ls.
func name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// listed are the commands below one that have a page.
func listed(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			all = append(all, c)
		}
	}
	return all
}

func page(cmd *cobra.Command, section int, version string) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q \"%d\" \"\" %q \"Hostler\"\n", strings.ToUpper(name(cmd)), section, "Hostler "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(name(cmd)), escape(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", escape(cmd.UseLine()))
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", asIs(long))
	fmt.Fprintf(&b, ".SH OPTIONS\n%s", asIs(cmd.NonInheritedFlags().FlagUsages()))
	if flags := cmd.InheritedFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(&b, ".SH OPTIONS OF ALL COMMANDS\n%s", asIs(flags))
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", asIs(cmd.Example))
	}
	var others []string
	if cmd.HasParent() {
		others = append(others, name(cmd.Parent()))
	}
	for _, c := range listed(cmd) {
		others = append(others, name(c))
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n")
		for i, o := range others {
			comma := ","
			if i == len(others)-1 {
				comma = ""
			}
			fmt.Fprintf(&b, ".BR %s (%d)%s\n", escape(o), section, comma)
		}
	}
	return b.String()
}

// asIs keeps the lines of a text.
func asIs(text string) string {
	return ".nf\n" + escape(strings.TrimRight(text, "\n")) + "\n.fi\n"
}

// escape lets no character of a text be one of the language of pages.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
