// Package chaos joins both engines, the real coordinator and real agents with
// their real queues, by a broker that does whatever a broker may do: it loses,
// repeats, delays, reorders, truncates and changes messages, says again what
// was said long ago or to another, keeps connections half open, forgets
// what it retained, and publishes wills late or for connections that are long
// gone. Meanwhile agents, hosts and the coordinator are killed and started
// again, and the coordinator's disk stalls. In every tenth schedule it is backed
// up at random moments, and its machine is lost and recovered from the
// newest backup: what a host knows is known then, nothing is done twice, and what
// cannot be known is lost and said to be.
//
// A schedule of all this is drawn from a seed and played on virtual time.
// Afterwards the broker is honest again, and within [Settled] everything has to
// be as if it had been honest all the time: that is what the tests check. A
// seed that failed is printed, and plays the same schedule again by
//
//	go test ./internal/chaos -run Schedules -seed N -seeds 1
package chaos

import "time"

// Settled is the bound within which both sides agree about everything once the
// faults have ended: the longest pause between two hellos or two sendings of an
// item (a minute each), the silence after which a host says hello again (a
// minute, seen at a look every half), and the time that what runs may take.
const Settled = 5 * time.Minute
