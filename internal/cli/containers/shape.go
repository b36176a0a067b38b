package containers

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/manifest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/mount"
	"github.com/hostler-io/hostler/protocol/setting"
)

// shape is what a new container is given beside its image.
type shape struct {
	limits, env, command, profiles, volumes, mounts []string
	hostname, network                               string
}

func (s *shape) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.limits, "limit", nil, "limit, as memory=256MiB; may be repeated")
	f.StringArrayVar(&s.env, "env", nil, "variable of its first process, NAME=VALUE; may be repeated")
	f.StringArrayVar(&s.volumes, "volume", nil, "volume of the host, NAME:/path or NAME:/path:ro; may be repeated")
	f.StringArrayVar(&s.mounts, "mount", nil, "file or directory of the host, /host/path:/path or /host/path:/path:ro; may be repeated")
	f.StringArrayVar(&s.profiles, "profile", nil, "profile of the configuration that says what no flag says; may be repeated")
	f.StringVar(&s.network, "network", "", "network that it is attached to, as hostler net create names it (default the first one of the host)")
	f.StringVar(&s.hostname, "hostname", "", "name that it calls itself (default its name)")
}

// read checks the flags, and cuts off the command behind the dashes.
func (s *shape) read(cmd *cobra.Command, args []string) ([]string, error) {
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		if at == len(args) {
			return nil, term.Usage(cmd.CommandPath()+" --help", "no command follows the --")
		}
		args, s.command = args[:at], args[at:]
	}
	if err := term.AtMost(2)(cmd, args); err != nil {
		return nil, err
	}
	if _, err := limit.Parse(s.limits); err != nil {
		return nil, term.Usage("hostler ct limit --help", "%s", err)
	}
	if err := setting.CheckEnv(s.env); err != nil {
		return nil, term.Usage("", "--env: %s", err)
	}
	if err := setting.CheckCommand(s.command); err != nil {
		return nil, term.Usage("", "the command: %s", err)
	}
	if _, err := mount.Parse(s.volumes, s.mounts); err != nil {
		return nil, term.Usage("", "%s", err)
	}
	if s.hostname != "" {
		if _, err := conn.ParseName(s.hostname); err != nil {
			return nil, err
		}
	}
	if s.network != "" {
		if err := protocol.CheckNetwork(s.network); err != nil {
			return nil, term.Usage("hostler net ls --help", "--network: %s", err)
		}
	}
	return args, nil
}

// in adds it to the arguments of a create, and what the profiles say that these do not.
func (s *shape) in(c protocol.CreateArgs, cmd *cobra.Command, profile func(string) ([]byte, error)) (*protocol.CreateArgs, error) {
	var all manifest.Shape
	for _, name := range s.profiles {
		text, err := profile(name)
		if err != nil {
			return nil, err
		}
		p, err := manifest.ParseProfile(text)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
		all = all.With(p)
	}
	if len(all.Files) > 0 {
		return nil, term.Usage("hostler ct apply --help", "a profile has files, which come from a manifest alone")
	}
	flags := manifest.Shape{
		Image: c.Template, Runtime: c.Runtime, Class: c.Class, Offline: c.Offline, Hostname: s.hostname, Network: s.network, Command: s.command, Ports: c.Expose, Volumes: s.volumes, Mounts: s.mounts,
		Labels: manifest.Map(c.Labels), Limits: manifest.Map(s.limits), Env: manifest.Map(s.env),
	}
	if cmd.Flags().Changed("start") {
		flags.Start = &c.Start
	}
	if cmd.Flags().Changed("privileged") {
		flags.Privileged = &c.Privileged
	}
	args := all.With(flags).Create()
	args.Pull, args.Data = c.Pull, c.Data
	return &args, nil
}
