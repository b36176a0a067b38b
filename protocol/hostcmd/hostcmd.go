// Package hostcmd is what the agent's own commands are asked for: the arguments of
// kinds that print what a host knows, which package protocol embeds, and the options
// of the command that answers them; pure.
package hostcmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/setting"
)

// ImagePull says which image is fetched.
type ImagePull struct {
	_       struct{} `required:"image"`
	Image   string   `json:"image,omitzero" example:"\"registry.example/debian:12\"" doc:"The image, with its registry."`
	Runtime string   `json:"runtime,omitzero" enum:"lxc,podman" doc:"For containers of lxc or podman. The default is podman, where there is podman."`
}

// Check reports what tags cannot say.
func (a *ImagePull) Check() error {
	if strings.HasPrefix(a.Image, "file:") { // this kind does not give root, and any file of the host may be named
		return fmt.Errorf("image: a file of the host is read when a container is made of it, and not before")
	}
	return checkImage(a.Image)
}

// Flags returns the options of the command.
func (a *ImagePull) Flags() []string {
	return []string{"--image=" + a.Image, "--runtime=" + a.Runtime}
}

// ImageRemove says which image is removed.
type ImageRemove struct {
	_       struct{} `required:"image"`
	Image   string   `json:"image,omitzero" example:"\"registry.example/debian:12\"" doc:"The image, as the list of images calls it."`
	Runtime string   `json:"runtime,omitzero" enum:"lxc,podman" doc:"That of lxc or of podman. The default is every one of that name."`
}

// Check reports what tags cannot say.
func (a *ImageRemove) Check() error { return checkImage(a.Image) }

// Flags returns the options of the command.
func (a *ImageRemove) Flags() []string {
	return []string{"--image=" + a.Image, "--runtime=" + a.Runtime}
}

// ImageImport says for which runtime an archive is imported.
type ImageImport struct {
	Runtime string `json:"runtime,omitzero" enum:"lxc,podman" doc:"For lxc or podman. The default is the one that it was exported from."`
}

// Flags returns the options of the command.
func (a *ImageImport) Flags() []string { return []string{"--runtime=" + a.Runtime} }

// ImageImportUnsigned says by which name an image is taken of which nothing shows who made
// it: what its archive calls it is not believed.
type ImageImportUnsigned struct {
	data.NewImage
	Runtime string `json:"runtime,omitzero" enum:"lxc,podman" doc:"For lxc or podman. The default is lxc, where there is LXC."`
}

// Flags returns the options of the command.
func (a *ImageImportUnsigned) Flags() []string {
	return []string{"--image=" + a.Reference(), "--runtime=" + a.Runtime}
}

// ImagePrune says which images may go.
type ImagePrune struct {
	OlderMS int64  `json:"older_ms,omitzero" min:"0" max:"315360000000" example:"604800000" doc:"Those that were not used for longer, in milliseconds. 0 is no limit."`
	Keep    int64  `json:"keep_bytes,omitzero" min:"0" max:"1125899906842624" example:"10737418240" doc:"How many bytes of images stay, those used last first. 0 is no limit. Podman does not say when an image was used, so it is for lxc alone."`
	Runtime string `json:"runtime,omitzero" enum:"lxc,podman" doc:"Those of lxc or of podman. The default is both."`
}

// Flags returns the options of the command.
func (a *ImagePrune) Flags() []string {
	return []string{"--older=" + (time.Duration(a.OlderMS) * time.Millisecond).String(), fmt.Sprintf("--keep=%d", a.Keep), "--runtime=" + a.Runtime}
}

func checkImage(image string) error {
	if err := setting.CheckTemplate(image); err != nil && image != "" {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

// MaxMetrics is how many metrics a question may name.
const MaxMetrics = 64

// Metrics says what of the samples is wanted.
type Metrics struct {
	_         struct{} `required:"since_ms"`
	SinceMS   int64    `json:"since_ms" min:"1000" max:"864000000" example:"3600000" doc:"How far back, in milliseconds. Samples are kept for 7 days."`
	Container string   `json:"container,omitzero" example:"\"web\"" doc:"The name of a container. Default: the host."`
	All       bool     `json:"all,omitzero" doc:"The host and all its containers."`
	Names     []string `json:"metrics,omitzero" example:"[\"cpu\"]" doc:"Names of metrics. Default: all."`
}

// Flags returns the options of the command.
func (a *Metrics) Flags() []string {
	flags := []string{"--since=" + (time.Duration(a.SinceMS) * time.Millisecond).String()}
	if a.Container != "" {
		flags = append(flags, "--container="+a.Container)
	}
	if a.All {
		flags = append(flags, "--all")
	}
	for _, m := range a.Names {
		flags = append(flags, "--metric="+m)
	}
	return flags
}

// Check reports what tags cannot say.
func (a *Metrics) Check() error {
	if len(a.Names) > MaxMetrics {
		return fmt.Errorf("metrics: %d names, want at most %d", len(a.Names), MaxMetrics)
	}
	return nil
}

// The sources of [Logs], and how many lines one may ask for.
const (
	LogOutput  = "output"
	LogRuntime = "runtime"
	MaxTail    = 1_000_000
)

// Logs says what of a log is wanted.
type Logs struct {
	Source  string `json:"source,omitzero" enum:"output,runtime" doc:"output (the default) is what its console or first process printed, runtime what the runtime said at its last start."`
	Tail    int64  `json:"tail,omitzero" min:"0" max:"1000000" example:"100" doc:"How many lines of the end. Default: 10000."`
	SinceMS int64  `json:"since_ms,omitzero" min:"0" max:"8640000000" example:"3600000" doc:"How far back, in milliseconds. Default: from the beginning. Not every runtime notes the time of a line."`
	Follow  bool   `json:"follow,omitzero" doc:"Go on with what it prints."`
}

// Flags returns the options of the command.
func (a *Logs) Flags() []string {
	flags := []string{"--tail=" + strconv.FormatInt(a.Tail, 10)}
	if a.Source != "" {
		flags = append(flags, "--source="+a.Source)
	}
	if a.SinceMS > 0 {
		flags = append(flags, "--since="+(time.Duration(a.SinceMS)*time.Millisecond).String())
	}
	if a.Follow {
		flags = append(flags, "--follow")
	}
	return flags
}

// Check reports what tags cannot say.
func (a *Logs) Check() error {
	if a.Source == LogRuntime && (a.Follow || a.SinceMS > 0) {
		return fmt.Errorf("source: what the runtime said ends with the start; ask for it without follow and since_ms")
	}
	return nil
}
