// Package certs keeps Hostler's keys: OpenPGP keys that sign what is said, the
// ring of those who may say it, and the TLS certificates of the connections.
// It is the one package that imports an OpenPGP library.
//
// # Signing keys
//
// An [Identity] is the secret key of a process or an operator. It is made on
// the machine that uses it, on first start, and never leaves it:
// [CreateIdentity] and [LoadIdentity] are different calls, so that a lost file
// is an error and never silently becomes a new identity. A [PublicKey] checks
// signatures of one certificate. It implements the checks of form and of the
// signature that package protocol asks for; dates are never judged, because a
// wrong clock must stop nothing. What is made here, stock gpg 2.2 verifies with
// --ignore-time-conflict, and operators may sign with keys that gpg made.
//
// # The ring
//
// A [Ring] says who owns the fleet, which coordinators it has, and which
// people may approve what. Ring n+1 counts only if enough different owners of
// ring n signed it, so a machine that holds one ring, from the join code, can walk a
// [Chain] forward to the newest through hands that are not trusted. [Keys] is
// the book that package protocol asks who owns a key: the ring in force, the
// hosts, and what was revoked.
//
// # TLS
//
// The broker and the API are reached over TLS 1.3 with certificates of an
// [Authority], one for each coordinator, pinned by the ring. What a peer is
// stands in a URI ([san.Name]). Inside the fleet no date is judged: each
// side verifies the chain as of the leaf's own first day, again on every
// resumed session, and a certificate ends by revocation. TLS protects the
// broker from strangers and secrets from listeners; that a message is
// authentic, its signature says.
package certs
