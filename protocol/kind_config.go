package protocol

import "github.com/hostler-io/hostler/protocol/setting"

// KindConfig changes settings of a container.
const KindConfig Kind = "container.config"

func kindConfig() KindInfo {
	i := lifecycle(KindConfig, "Change settings of a container, all or none, at once and from now on.", new(ConfigArgs))
	i.RootEquivalent = true // its keys are those of the whole configuration
	return i
}

// ConfigArgs are the arguments of a change of settings.
type ConfigArgs struct {
	_     struct{} `required:"set"`
	Set   []string `json:"set,omitempty" example:"[\"label.app=web\",\"limit.memory=256MiB\"]" doc:"Settings, each KEY=VALUE: label.NAME, limit.RESOURCE, or hostname of a stopped container. A KEY alone takes its setting away."`
	Force bool     `json:"force,omitzero" doc:"Also limits below what it uses now."`
}

func (a *ConfigArgs) check() error {
	_, err := setting.Parse(a.Set)
	return err
}
