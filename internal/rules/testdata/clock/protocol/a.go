package protocol

import "time"

func fresh(t, now time.Time) bool {
	_ = time.Since(t) // want
	f := time.Now     // want
	return now.Sub(t) < time.Minute && f().After(t)
}
