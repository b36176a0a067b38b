package upgrade

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/release"
)

// plan is which hosts are upgraded when.
type plan struct {
	waves [][]api.Host // one after the other
	away  []api.Host   // when they come, after all waves
	have  []api.Host   // that have the version, or a newer one
	// together is how many of those that are away are upgraded at a time when they come.
	together int
}

// size is how many hosts a wave has: a number, or a part of all.
type size struct {
	n       int
	percent bool
}

// parseSize reads 10% or 5.
func parseSize(s string) (size, error) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || percent && n > 100 {
		return size{}, fmt.Errorf("%.40q is neither a number of hosts from 1 nor 1%% to 100%%", s)
	}
	return size{n, percent}, nil
}

// of is the size of a wave of all; at least one host.
func (s size) of(all int) int {
	if s.percent {
		return max(1, all*s.n/100)
	}
	return s.n
}

// planWaves sorts hosts into waves: the canaries by themselves, then the others that are
// here, in the order of their ids. Hosts that are away come last.
func planWaves(hosts []api.Host, version string, canaries []string, s size) plan {
	var p plan
	var first, rest []api.Host
	for _, h := range hosts {
		switch {
		case h.Version != "" && release.Compare(h.Version, version) >= 0:
			p.have = append(p.have, h)
		case h.Connectivity != "online":
			p.away = append(p.away, h)
		case slices.Contains(canaries, h.ID):
			first = append(first, h)
		default:
			rest = append(rest, h)
		}
	}
	if len(first) > 0 {
		p.waves = append(p.waves, first)
	}
	p.waves = append(p.waves, slices.Collect(slices.Chunk(rest, s.of(max(1, len(rest)))))...)
	p.together = s.of(max(1, len(p.away)))
	return p
}
