// Package policy decides what takes whose approval on a host. It is pure: a
// policy, a request, who has signed and what time it is go in, an answer comes
// out. Hosts hold orders against it, and they alone make it hold; a coordinator
// asks the same code in order to collect the approvals that the host will want,
// and programs of people in order to tell what is wrong with a policy before
// they sign it.
//
// A policy is a text in TOML, see [Parse]. The first [[rule]] that fits a
// request says what it needs; what no rule fits needs nothing. What only the
// coordinator says of a request, such as who asks, never makes it cheaper.
//
// A policy that asks for approvals of anything must ask for as many of
// everything by which it could be had without them: see [Policy.Holes].
package policy
