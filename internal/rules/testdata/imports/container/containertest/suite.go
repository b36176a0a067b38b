package containertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc" // want
)

var (
	_ testing.TB
	_ = cmp.Diff
	_ container.Runtime
	_ lxc.Runtime
)
