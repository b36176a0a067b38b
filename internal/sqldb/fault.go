//go:build !hostlertest

package sqldb

// faults tells that files can be made to fail, which is in builds for tests only.
const faults = false

func (*fileTable) takeFaults() {}
