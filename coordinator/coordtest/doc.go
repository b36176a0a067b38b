// Package coordtest is a whole fleet in memory, for tests of whatever stands
// on a coordinator.
//
// The [coordinator.Coordinator] is the real one; it stands on a store in
// memory, on keys that are cheap to make, and on a broker that is a function
// call. Its hosts are scripted but speak the real protocol: every message is
// signed, opened by the twelve checks, numbered and receipted, so that a host
// here refuses what a host out there would refuse.
//
//	f := coordtest.New(t)
//	h := f.AddHost("edge-07")
//	h.Auto(coordtest.Succeed("hello\n"))
//	h.Connect()
//	a, err := f.Coordinator().Propose(ctx, f.Admin(), coordinator.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
//
// Everything runs on time.Now and timers, so in a synctest bubble a day passes
// at once. Nothing is left behind when the test ends.
package coordtest
