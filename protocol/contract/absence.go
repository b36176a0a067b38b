package contract

import "time"

// KeepEvery is how often an absence is made durable while it lasts: a crash of the host
// gives at most that much of a contract back.
const KeepEvery = time.Minute

// Absence is for how long a host was cut off from its coordinator while it was on: for
// MS at AtMS of the boot clock of Boot, and on from there, for nothing but a word of the
// coordinator ends it. It is a value, and what is durable of it is one.
//
// Time that the host was powered off does not count, and no wall clock is asked.
type Absence struct {
	MS   int64  `json:"ms,omitzero"` // 0: the coordinator was heard at AtMS
	AtMS int64  `json:"at_ms,omitzero"`
	Boot string `json:"boot,omitzero"`
}

// Begun is the absence when a process begins: within a boot it goes on as if there had
// been no restart, so that no number of crashes makes it longer or shorter. Of a host
// that was heard until the process before ended, it begins anew.
func (a Absence) Begun(boot string, nowMS int64) Absence {
	if a.Boot == boot && a.MS > 0 && a.AtMS <= nowMS {
		return a.At(nowMS)
	}
	return Absence{MS: max(1, a.MS), AtMS: nowMS, Boot: boot}
}

// Heard is the absence after a word of the coordinator at atMS.
func (a Absence) Heard(atMS int64) Absence {
	if atMS > a.AtMS {
		a.MS, a.AtMS = 0, atMS
	}
	return a
}

// At is the absence as it is told at nowMS, with all that was before in one number.
func (a Absence) At(nowMS int64) Absence {
	a.MS, a.AtMS = a.MS+max(0, nowMS-a.AtMS), max(a.AtMS, nowMS)
	return a
}

// Away is for how long the host is cut off at nowMS.
func (a Absence) Away(nowMS int64) time.Duration {
	return time.Duration(a.At(nowMS).MS) * time.Millisecond
}

// Due tells whether the absence is to be made durable at nowMS, where kept is what is: it
// has ended, or it lasts, and has grown. counts tells that a container's contract runs by
// it; else a host without a coordinator would write for years for nothing.
func (a Absence) Due(kept Absence, nowMS int64, counts bool) bool {
	every := KeepEvery.Milliseconds()
	if a.MS == 0 && kept.MS > 0 {
		return true
	}
	return counts && a.At(nowMS).MS >= every && (kept.MS == 0 || nowMS-kept.AtMS >= every)
}
