package main

import (
	"context"
	"time"

	"github.com/hostler-io/hostler/image"
)

// collectEvery is how often images are looked over, collectFresh how long one stays that was
// used just now, and collectLeft how long the parts of a pull stay that was cut short.
const (
	collectEvery = time.Hour
	collectFresh = time.Hour
	collectLeft  = 24 * time.Hour
)

// kept is how much of the images stays that nobody needs.
func (c imagesConfig) kept() image.Limits {
	return image.Limits{Age: time.Duration(c.KeepDays) * 24 * time.Hour, Bytes: int64(c.KeepGiB) << 30, Fresh: collectFresh, Left: collectLeft}
}

// collectImages removes images of LXC that were not used for long, or that take too much
// room, until ctx ends. Podman's images belong to everybody who uses podman.
func (n *node) collectImages(ctx context.Context) {
	images, err := n.config.openImages(n.state)
	if err != nil {
		n.log.Warn("images are not looked over", "error", err)
		return
	}
	ticks := time.NewTicker(collectEvery)
	defer ticks.Stop()
	images.Collect(ctx, n.config.Images.kept(), ticks.C, func(gone []image.Record, freed int64, err error) {
		if len(gone) > 0 {
			n.log.Info("images were removed", "count", len(gone), "first", gone[0].Reference, "freed_bytes", freed)
		}
		if err != nil {
			n.log.Warn("images that may go stay; they are looked over again", "error", err, "after", collectEvery)
		}
	})
}
