// Package containertest holds what the implementations of container.Runtime
// are measured by: a suite that states the contract in tests, and a stateful
// fake that passes it, for the tests of those who use a runtime.
//
// A new runtime is finished when [Run] passes on the real thing.
package containertest
