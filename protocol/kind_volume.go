package protocol

import (
	"github.com/hostler-io/hostler/protocol/mount"
)

// The kinds about volumes: directories of the host with names, which containers mount.
const (
	KindVolumeList   Kind = "volume.list"
	KindVolumeRemove Kind = "volume.remove"
)

func kindsOfVolumes() []KindInfo {
	return []KindInfo{
		printing(KindVolumeList, "List the volumes of the host.", execTimeout, new(ExportArgs)),
		{
			Kind: KindVolumeRemove, Doc: "Remove a volume that no container has, with all that is in it.", Target: TargetHost, Lane: LaneNone, Attempts: 3,
			RunTimeout: lifecycleTimeout, StartTTL: startTTL, form: formOf(new(VolumeArgs)),
		},
	}
}

// VolumeArgs name a volume.
type VolumeArgs struct {
	_      struct{} `required:"volume"`
	Volume string   `json:"volume,omitzero" example:"\"data\"" doc:"The name of the volume."`
}

func (a *VolumeArgs) check() error { return mount.CheckName(a.Volume) }
