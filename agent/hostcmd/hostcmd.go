// Package hostcmd is the agent's own commands: those that print what the host knows,
// and those that move files. Each runs as a process of its own, under a supervisor,
// with what it has to know in its options: so it goes on while the agent restarts. What
// it is asked for is in the package of the same name below protocol.
package hostcmd

import (
	"context"
	"maps"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/podman"
	"github.com/hostler-io/hostler/protocol"
)

// Host is what an agent tells its commands.
type Host struct {
	Program   string // this one
	Socket    string // of the agent
	State     string // the directory of the agent
	Metrics   string // the directory of samples
	Images    ImageSetup
	LXCPath   string // the directory of the containers of LXC
	LXCHelper string
	Volumes   string // the directory of the volumes
	Podman    string // the socket of podman's service
	Bridge    string // of the containers; empty is none
	Mark      string // of the agent's rules of the packet filter
	// Targets are where backups may be kept beside the host, see [backup.ParseTargets].
	Targets []string
	// Access is how the host is let into those that are buckets.
	Access backup.Access
	// EncryptTo is a file of the keys to which new backups are encrypted; empty: they are not.
	EncryptTo string
}

// ImageSetup is where the images of LXC are, and how large an image of any runtime may be.
type ImageSetup struct {
	Dir        string
	Registries image.Registries
	MaxBytes   int64
}

// Printers are the commands of the kinds that print, where the host has these runtimes.
func (h Host) Printers(runtimes []container.Runtime) (map[protocol.Kind][]string, error) {
	all := map[protocol.Kind][]string{
		protocol.KindHostAudit:   {"audit", "export", "--socket=" + h.Socket},
		protocol.KindHostCheck:   {"check", "--socket=" + h.Socket},
		protocol.KindHostMetrics: {"metrics", "--dir=" + h.Metrics},
		protocol.KindInspect:     {"inspect", "--socket=" + h.Socket},
		protocol.KindLogs:        {"logs", "--lxc-path=" + h.LXCPath, "--podman-socket=" + h.Podman},
	}
	backups := []string{"--state-dir=" + h.State, "--volumes-dir=" + h.Volumes, "--lxc-path=" + h.LXCPath, "--lxc-helper=" + h.LXCHelper, "--podman-socket=" + h.Podman, "--socket=" + h.Socket}
	for _, t := range h.Targets {
		backups = append(backups, "--targets="+t)
	}
	for _, c := range h.Access.Credentials {
		backups = append(backups, "--s3-credentials="+c)
	}
	if h.Access.CAFile != "" {
		backups = append(backups, "--s3-ca-file="+h.Access.CAFile)
	}
	for kind, verb := range map[protocol.Kind]string{
		protocol.KindBackup: "create", protocol.KindBackupList: "ls", protocol.KindBackupVerify: "verify", protocol.KindBackupRemove: "rm",
		protocol.KindBackupExport: "export", protocol.KindBackupImport: "import",
	} {
		all[kind] = append([]string{"backups", verb}, backups...)
	}
	if h.EncryptTo != "" { // keys that cannot be used keep no backup from being listed, verified or removed
		all[protocol.KindBackup] = append(all[protocol.KindBackup], "--encrypt-to="+h.EncryptTo)
	}
	for kind, verb := range map[protocol.Kind]string{protocol.KindNetworkList: "ls", protocol.KindNetworkCleanup: "cleanup"} {
		all[kind] = []string{"networks", verb, "--socket=" + h.Socket, "--bridge=" + h.Bridge, "--mark=" + h.Mark}
	}
	all[protocol.KindVolumeList] = []string{"volumes", "ls", "--socket=" + h.Socket, "--dir=" + h.Volumes}
	images, err := h.imagePrinters(runtimes)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, images)
	for kind, argv := range all {
		all[kind] = append([]string{h.Program}, argv...)
	}
	return all, nil
}

// Config is what the commands need of the program that they are a part of.
type Config struct {
	// Socket and Metrics tell the configured socket of the agent and directory of samples.
	Socket, Metrics func() (string, error)
	// Note is the path at which a pull leaves what its archive holds.
	Note string
	// Check looks over the host as it is configured.
	Check func(context.Context) ([]api.Finding, error)
	// Backups opens the backups of a host by the directory of its agent, and tells where
	// the locks of containers are. New ones are encrypted to the keys in a file, if that is
	// not empty.
	Backups func(state, encryptTo string) (s backup.Store, locks string, err error)
	// Signing is how a host signs and verifies archives for other hosts, by the directory of
	// its agent. Export and import alone ask for it.
	Signing func(state string) (Signing, error)
	// Podman opens podman by its socket.
	Podman func(socket string) (*podman.Runtime, error)
}

// Commands are all of them. Those that people do not call are hidden.
func (c Config) Commands() []*cobra.Command {
	return []*cobra.Command{
		c.filesCommand(), c.imagesCommand(), c.backupsCommand(), networksCommand(), volumesCommand(), logsCommand(), inspectCommand(),
		c.checkCommand(), c.auditCommand(), c.metricsCommand(),
	}
}

// noArgs refuses arguments.
var noArgs = daemon.Args(0, 0)
