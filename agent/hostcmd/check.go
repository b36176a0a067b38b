package hostcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/daemon"
)

// ErrUnwell tells that a check has failed. It was printed.
var ErrUnwell = errors.New("a check has failed")

func (c Config) checkCommand() *cobra.Command {
	var socket, output string
	cmd := &cobra.Command{
		Use: "check", Short: "Look for what keeps this host from doing its work", Args: noArgs,
		Long: "Look at the space of the directories, at what containers and commands need (LXC, podman, control groups,\n" +
			"user namespaces), at the clock, at the way to the coordinator, at the certificate and the memory of the\n" +
			"agent, and for what a crash has left. Of each fault it prints the cause and what mends it. It works with\n" +
			"and without a running agent, and changes nothing. The exit code is 1 if a check has failed; warnings do\n" +
			"not count.",
		Example: "  hostler-agent check\n  hostler-agent check -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket != "" { // for the coordinator: how it ends says only that it was asked
				return ask(cmd, socket, "/v1/check")
			}
			if output != "text" && output != "json" {
				return daemon.Usage(fmt.Errorf("-o %s: want text or json", output))
			}
			found, err := c.Check(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(found)
			} else {
				err = printFindings(cmd.OutOrStdout(), found)
			}
			for _, f := range found {
				if err == nil && f.Result == api.FindingFailed {
					err = ErrUnwell
				}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "ask the agent of this socket")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	if err := cmd.Flags().MarkHidden("socket"); err != nil {
		panic(err) // the flag stands above
	}
	return cmd
}

// printFindings writes findings for people, those that are well in a line.
func printFindings(w io.Writer, all []api.Finding) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	counts := make(map[string]int)
	for _, f := range all {
		counts[f.Result]++
		fmt.Fprintf(t, "%s\t%s\n", f.Result, f.Check)
		if f.Cause != "" {
			fmt.Fprintf(t, "\t%s\n\tmend: %s\n", f.Cause, f.Mend)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "%d checks, %d warnings, %d failed\n", len(all), counts[api.FindingWarning], counts[api.FindingFailed])
	_, err := io.WriteString(w, b.String())
	return err
}
