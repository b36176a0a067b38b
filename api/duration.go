package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxDays bounds durations in days: a hundred years.
const maxDays = 36_500

// ParseDuration reads a duration as people type it: "90s", "1h30m" or "7d". A
// number without a unit is an error, but for 0.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n uint64
		if n, err = strconv.ParseUint(days, 10, 32); err == nil && n > maxDays {
			err = strconv.ErrRange
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%.30q is not a duration: use a number with a unit, as in 90s, 5m, 8h or 7d", s)
	}
	return d, nil
}
