//go:build integration

package integration

import (
	"flag"
	"time"
)

// quiet is set by the stage that runs one test after the other: times are then held
// to what is promised, and not to what a busy machine takes.
var quiet = flag.Bool("quiet", false, "nothing else runs: hold times to what is promised")

// within is a bound: promised where nothing else runs, and busy where other tests do.
func within(promised, busy time.Duration) time.Duration {
	if *quiet {
		return promised
	}
	return busy
}
