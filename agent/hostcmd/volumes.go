package hostcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/volume"
)

// volumesCommand is run by the agent itself, under a supervisor.
func volumesCommand() *cobra.Command {
	cmd := daemon.Group("volumes", "For the agent alone", "volumes needs ls")
	cmd.Hidden = true
	var socket, dir string
	ls := &cobra.Command{
		Use: "ls", Short: "For the agent alone", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listVolumes(cmd.Context(), socket, dir, cmd.OutOrStdout())
		},
	}
	ls.Flags().StringVar(&socket, "socket", "", "the agent's socket")
	ls.Flags().StringVar(&dir, "dir", "", "the directory of the volumes")
	cmd.AddCommand(ls)
	return cmd
}

func listVolumes(ctx context.Context, socket, dir string, out io.Writer) error {
	agent, err := client.New(client.Config{Address: "unix://" + socket})
	if err != nil {
		return err
	}
	var all []api.Container
	if err := agent.Get(ctx, "/v1/containers", nil, &all); err != nil {
		return fmt.Errorf("ask the agent for its containers: %w", err)
	}
	found, err := (&volume.Store{Dir: dir}).List()
	for _, v := range found {
		shown := api.Volume{Name: v.Name, Containers: []string{}, Path: filepath.Join(dir, v.Name), Filled: v.Filled != ""}
		if v.MadeMS != 0 {
			shown.Made = time.UnixMilli(v.MadeMS).UTC()
		}
		for _, c := range all {
			if slices.ContainsFunc(c.Volumes, func(m string) bool { return strings.HasPrefix(m, v.Name+":") }) {
				shown.Containers = append(shown.Containers, c.Name)
			}
		}
		err = cmp.Or(err, json.NewEncoder(out).Encode(shown))
	}
	return err
}
