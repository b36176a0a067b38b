package run

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/secret"
)

// sealEnv seals the secret variables of a command to the key of its host. The key is
// that of the list of hosts which a coordinator of the fleet has signed, by the
// rings that this machine keeps: a machine between us and the coordinator cannot
// lend another one.
func (a *commands) sealEnv(ctx context.Context, r *conn.Remote, c *command, host protocol.HostID, id protocol.ActionID, spec []byte) ([]byte, error) {
	if len(c.secretEnv) == 0 {
		return spec, nil
	}
	if r.Local {
		return nil, term.Usage("use --env", "--secret-env is not needed on the host itself")
	}
	env, err := a.secrets(c.secretEnv)
	if err != nil {
		return nil, err
	}
	keys, err := a.VerifyKeys(ctx, "", "")
	if err != nil {
		return nil, fmt.Errorf("find the key of host %s: %w", host, err)
	}
	key, ok := keys.HostKey(host)
	if !ok {
		return nil, &term.Failure{Code: term.ExitNotFound, What: "host " + string(host) + " is not in the signed list of hosts", Next: "hostler host ls"}
	}
	s, err := protocol.DecodeSpec(spec)
	if err != nil {
		return nil, err
	}
	values := secret.Values{Fleet: keys.Chain().Ring().Fleet, Host: host, Action: id, Env: env}
	plain, err := values.Encode()
	if err != nil {
		return nil, err
	}
	sealed, err := key.Encrypt(plain)
	if err != nil {
		return nil, err
	}
	s.SetSecret(&protocol.Sealed{Sealed: sealed, Names: values.Names()})
	return dispatch.EncodeSpec(s)
}

// secrets takes the values that are not given from the environment.
func (a *commands) secrets(given []string) ([]string, error) {
	env := make([]string, len(given))
	for i, s := range given {
		name, _, ok := strings.Cut(s, "=")
		if ok && name != "" {
			a.Say("hostler: other users of this machine can see the value of %s with ps; put it into the environment (read -rs %s; export %s) and use --secret-env %s, or send it as input with -i", name, name, name, name)
		}
		if !ok {
			v := a.Getenv(name)
			if v == "" {
				return nil, term.Usage("", "--secret-env %s: this variable is not set here, or empty", name)
			}
			s += "=" + v
		}
		if name == "" {
			return nil, term.Usage("", "--secret-env: a variable has no name")
		}
		if !utf8.ValidString(s) {
			return nil, term.Usage("", "--secret-env %q: its value is not UTF-8", name)
		}
		env[i] = s
	}
	return env, nil
}
