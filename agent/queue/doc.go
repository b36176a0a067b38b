// Package queue is the agent's memory: the only thing that the agent knows
// again after it was killed.
//
// It is one SQLite database. Each method that changes it is one whole step of
// an action's, a stream's or a container's life in one transaction, so that
// whatever line the agent is killed at, either the step was made or it was not:
// there is nothing to repair on start. When a method returns nil the step is on
// disk, and only then may the caller act upon it or report it.
//
// # What is in it
//
//   - who this is: the id of the database, the count of process starts, the
//     newest term and store of the coordinator, the newest receipt (the proof
//     that it said so);
//   - positions of the streams down (order, control), moved in the transaction
//     of the effect, and up (report, alert) with their outbox;
//   - actions, from their acceptance until their last report was receipted and
//     they are old, and a tombstone each afterwards, so that an id is never
//     accepted twice; the newest 100,000 of these, for 400 days of uptime;
//   - containers: what they are and what a user wants of them.
//
// Every move of an action goes through [protocol.State.Next] as the agent, and
// writes its report into the outbox in the same transaction.
//
// A disk that is full or fails gives [ErrDisk]: nothing of the step was kept and
// it may be tried again. The queue never loses what it held. An audit log that alone
// takes no records gives [ErrAudit] to what is new; the records of what happened all the
// same wait in a reserve beside it.
package queue
