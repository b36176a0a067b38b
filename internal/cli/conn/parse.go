package conn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/ident"
)

// ParseOneHost reads the host that may be named, unless all are meant anyway.
func ParseOneHost(args []string, all bool) (protocol.HostID, error) {
	if len(args) == 0 {
		return "", nil
	}
	if all {
		return "", term.Usage("leave out "+args[0], "a host cannot be named together with -A, or on the host itself")
	}
	id, err := ParseHost(args[0])
	if err != nil {
		return "", term.Usage("hostler host ls", "%s", err)
	}
	return id, nil
}

// Selector selects by labels, as the API does.
type Selector = api.Selector

// Ref names a container: HOST/NAME, HOST/podman:NAME, or on a host NAME alone.
type Ref struct {
	Host    protocol.HostID // empty on the host itself
	Runtime string          // empty: whichever has it
	Name    string
}

func (r Ref) String() string {
	if r.Name == "" { // the host alone
		return cmp.Or(string(r.Host), "this host")
	}
	s := r.Name
	if r.Runtime != "" {
		s = r.Runtime + ":" + s
	}
	if r.Host != "" {
		s = string(r.Host) + "/" + s
	}
	return s
}

// ParseRef reads the name of a container.
func ParseRef(s string, local bool) (Ref, error) {
	host, name, ok := strings.Cut(s, "/")
	switch {
	case local && ok:
		return Ref{}, fmt.Errorf("%q names a host: on the host itself use the container name alone", s)
	case local:
		host, name = "", s
	case !ok:
		return Ref{}, fmt.Errorf("%q is not a container: use HOST/NAME", s)
	}
	r := Ref{Name: name}
	if rt, n, ok := strings.Cut(name, ":"); ok {
		if rt != "lxc" && rt != "podman" {
			return Ref{}, fmt.Errorf("%q is not a container: the runtime %q is unknown, use lxc or podman", s, rt)
		}
		r.Runtime, r.Name = rt, n
	}
	if !local {
		var err error
		if r.Host, err = ParseHost(host); err != nil {
			return Ref{}, err
		}
	}
	if r.Name == "" {
		return Ref{}, fmt.Errorf("%q is not a container: the name is missing", s)
	}
	return r, nil
}

// ParseHost reads the id of a host.
func ParseHost(s string) (protocol.HostID, error) {
	h, err := protocol.ParseHostID(s)
	switch {
	case err == nil:
		return h, nil
	case strings.Contains(s, "/"):
		return "", fmt.Errorf("%q is not a host; it may be a container", s)
	}
	return "", fmt.Errorf("%q is not a host id: use 1 to 63 of a-z, 0-9 and inner hyphens", s)
}

// ParseName reads what a container is to be called.
func ParseName(s string) (protocol.ContainerName, error) {
	n, err := protocol.ParseContainerName(s)
	if ref, e := ParseRef(s, false); err != nil && e == nil {
		return "", term.Usage("", "%q names the host %q too: give the new name alone, %q", s, ref.Host, ref.Name)
	}
	if err != nil {
		return "", term.Usage("", "%q is not a valid container name: use 1 to 63 of a-z, 0-9 and inner hyphens", s)
	}
	return n, nil
}

// CheckLabels accepts K=V with a K, and nothing that a selector cannot name.
func CheckLabels(labels []string) error {
	if err := CheckPairs("label", labels); err != nil {
		return err
	}
	if i := slices.IndexFunc(labels, func(l string) bool { return !ident.Selectable(l) }); i >= 0 {
		return fmt.Errorf("label %q: a label holds no comma and no line break, and its value begins with no =", labels[i])
	}
	return nil
}

// CheckPairs accepts K=V with a K.
func CheckPairs(flag string, pairs []string) error {
	for _, p := range pairs {
		if strings.IndexByte(p, '=') < 1 {
			return fmt.Errorf("--%s %q: use NAME=VALUE", flag, p)
		}
	}
	return nil
}
