// Package join makes a host a member of a fleet: it is the agent's side of the
// exchange that package protocol/enrol describes, over HTTPS.
//
// What is known of an exchange is one [Record], which the caller keeps durably.
// [Client.Run] takes it from wherever it stands to the operator's decision and
// may be interrupted at any line: called again with what was kept last, it goes
// on. An exchange whose answer was lost is begun anew with the same key, which
// the coordinator welcomes.
//
// # Whom it believes
//
// Nothing is believed for having come from an address. The join code names one
// ring by its digest; rings are fetched from any server that answers, because they
// prove themselves, and lead to the ring in force. Everything else goes only to
// a server whose certificate chains to an authority in that ring, and the key
// that the coordinator names must stand in it. Against an attacker who holds an
// authority of the ring stand the four words: they are computed here, from what
// this side has seen.
//
// # Patience
//
// Whatever a broken network can cause is tried again, 1 s to 5 s apart at first
// and up to 5 minutes later. What cannot become better by waiting ends Run: a
// server that is not of the fleet ([ErrStranger]), a refusal of the coordinator
// ([ErrRefused]), and the operator's no ([ErrDenied], [ErrRevoked]).
package join
