// Package commands runs the commands of actions: it starts an attempt under a
// supervisor, finds it again after a restart of the agent, follows it to its end,
// cancels it, looks at what hangs, and removes what old commands have left.
//
// [Active] belongs to the agent's loop; what takes time is done beside it by one
// follower for each attempt (attempt.go). What an attempt came to is decided by
// pure code (outcome.go, stuck.go) and comes back to the loop as an [actions.Outcome]:
// package commands stores nothing.
package commands
