package containers

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/setting"
)

// shape is what a new container is given beside its image.
type shape struct {
	limits, env, command []string
	hostname             string
}

func (s *shape) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.limits, "limit", nil, "limit, as memory=256MiB; may be repeated")
	f.StringArrayVar(&s.env, "env", nil, "variable of its first process, NAME=VALUE; may be repeated")
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
	if s.hostname != "" {
		if _, err := conn.ParseName(s.hostname); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// in adds it to the arguments of a create.
func (s *shape) in(c protocol.CreateArgs) *protocol.CreateArgs {
	c.Limits, c.Env, c.Hostname, c.Command = s.limits, s.env, protocol.ContainerName(s.hostname), s.command
	return &c
}
