//go:build integration && heavy

package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestManyKillsMidStream kills whoever carries a stream at random moments, 32 times
// with each of 4 seeds.
func TestManyKillsMidStream(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed+1), func(t *testing.T) { manyKills(t, seed+1, 32) })
	}
}

// manyKills kills at random moments of a stream, in rounds.
func manyKills(t *testing.T, seed uint64, rounds int) {
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	random := rand.New(rand.NewPCG(seed, 1))
	s := w.startTalk(t, h, "talk", 5000)
	for round := range rounds {
		var victims []string
		for _, v := range []string{"agent", "coordinator", "followers"} {
			if random.IntN(2) == 0 {
				victims = append(victims, v)
			}
		}
		s.more(t, random.IntN(100_000))
		t.Logf("seed %d, round %d: %v", seed, round, victims)
		s.kill(t, victims...)
	}
	s.more(t, 100_000)
	s.end(t)
}
