package protocol

// KindAdopt makes a container that Hostler did not make one of its own. Its target is the
// id that the container gets.
const KindAdopt Kind = "container.adopt"

func kindAdopt() KindInfo {
	i := lifecycle(KindAdopt, "Take over a container that Hostler did not make.", new(AdoptArgs))
	i.Creates, i.RootEquivalent = true, true
	return i
}

// AdoptArgs say which container is taken over, beside its name.
type AdoptArgs struct {
	Runtime    string `json:"runtime,omitzero" enum:"lxc,podman" doc:"lxc or podman, where the host has a container of that name in both."`
	Privileged bool   `json:"privileged,omitzero" doc:"Take it over although root in it is root of its host."`
}

func (*AdoptArgs) check() error { return nil }
