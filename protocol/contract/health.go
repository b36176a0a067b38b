package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What is done about a container whose check fails.
const (
	Restart = "restart"
	Mark    = "mark"
)

// The states of a check.
const (
	Starting  = "starting"
	Healthy   = "healthy"
	Unhealthy = "unhealthy"
)

// Defaults of a check.
const (
	defaultInterval = 30 * time.Second
	defaultTimeout  = 10 * time.Second
	defaultRetries  = 3
)

// Check is how a container is looked at while it runs: by one of a command in it, a
// connection, and a request by HTTP.
type Check struct {
	Off  bool     `json:"off,omitzero" doc:"Look no more; the rest is left out."`
	Cmd  []string `json:"cmd,omitempty" example:"[\"pg_isready\",\"-q\"]" doc:"A program in the container and its arguments, which ends with 0. No shell reads them."`
	TCP  int64    `json:"tcp,omitzero" example:"5432" doc:"A port of the container that takes connections."`
	HTTP string   `json:"http,omitzero" example:"\":8080/healthz\"" doc:":PORT/PATH of the container, answered with a status below 400."`

	IntervalMS int64  `json:"interval_ms,omitzero" example:"30000" doc:"How far checks are apart, from 1000. Default: 30000."`
	TimeoutMS  int64  `json:"timeout_ms,omitzero" example:"10000" doc:"How long one may take, from 100. Default: 10000."`
	Retries    int64  `json:"retries,omitzero" example:"3" doc:"How many have to fail in a row, 1 to 100. Default: 3."`
	StartMS    int64  `json:"start_ms,omitzero" example:"60000" doc:"For how long after a start failures do not count, unless one has succeeded. Default: none."`
	Action     string `json:"action,omitzero" example:"\"restart\"" doc:"restart (the default) restarts the container then, mark only tells."`
}

// Every is how far checks are apart.
func (c *Check) Every() time.Duration { return ms(c.IntervalMS, defaultInterval) }

// Timeout is how long one may take.
func (c *Check) Timeout() time.Duration { return ms(c.TimeoutMS, defaultTimeout) }

// Start is for how long after a start failures do not count.
func (c *Check) Start() time.Duration { return ms(c.StartMS, 0) }

// Needs is how many have to fail in a row.
func (c *Check) Needs() int64 {
	if c.Retries == 0 {
		return defaultRetries
	}
	return c.Retries
}

func ms(n int64, otherwise time.Duration) time.Duration {
	if n == 0 {
		return otherwise
	}
	return time.Duration(n) * time.Millisecond
}

// Bounds of a check.
const (
	maxCmd   = 32
	maxHTTP  = 512
	maxTime  = 24 * time.Hour
	maxTries = 100
)

// Check tells what is wrong with a check.
func (c *Check) Check() error {
	ways := 0
	for _, set := range []bool{len(c.Cmd) > 0, c.TCP != 0, c.HTTP != ""} {
		if set {
			ways++
		}
	}
	switch {
	case c.Off && (ways > 0 || c.IntervalMS+c.TimeoutMS+c.Retries+c.StartMS != 0 || c.Action != ""):
		return errors.New("health: off stands alone")
	case c.Off:
		return nil
	case ways != 1:
		return errors.New("health: want one of a command, a port and a path")
	case len(c.Cmd) > maxCmd || len(c.Cmd) > 0 && c.Cmd[0] == "":
		return fmt.Errorf("health: the command is missing, or has more than %d words", maxCmd)
	case c.TCP < 0 || c.TCP > 65535:
		return fmt.Errorf("health: %d is no port", c.TCP)
	case c.IntervalMS != 0 && (c.Every() < time.Second || c.Every() > maxTime):
		return fmt.Errorf("health: the interval is out of range: use 1s to %s", Words(maxTime))
	case c.TimeoutMS != 0 && (c.Timeout() < 100*time.Millisecond || c.Timeout() > maxTime):
		return fmt.Errorf("health: the timeout is out of range: use 100ms to %s", Words(maxTime))
	case c.StartMS < 0 || c.Start() > maxTime:
		return fmt.Errorf("health: the time of a start is out of range: use at most %s", Words(maxTime))
	case c.Retries < 0 || c.Retries > maxTries:
		return fmt.Errorf("health: %d retries are out of range: use 1 to %d", c.Retries, maxTries)
	case c.Action != "" && c.Action != Restart && c.Action != Mark:
		return fmt.Errorf("health: %.40q is no action: use %s or %s", c.Action, Restart, Mark)
	}
	if c.HTTP == "" {
		return nil
	}
	_, _, err := c.Where()
	return err
}

// Where is the port and the path of a check by HTTP.
func (c *Check) Where() (port int64, path string, err error) {
	text, ok := strings.CutPrefix(c.HTTP, ":")
	number, path, slash := strings.Cut(text, "/")
	port, bad := strconv.ParseInt(number, 10, 32)
	if !ok || bad != nil || port < 1 || port > 65535 || len(c.HTTP) > maxHTTP || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return 0, "", fmt.Errorf("health: %.60q is not of the form :PORT/PATH", c.HTTP)
	}
	if !slash {
		path = ""
	}
	return port, "/" + path, nil
}

// String says what is looked at.
func (c *Check) String() string {
	switch {
	case len(c.Cmd) > 0:
		return "the command " + c.Cmd[0]
	case c.TCP != 0:
		return "port " + strconv.FormatInt(c.TCP, 10)
	}
	return "http " + c.HTTP
}

// Health is what the checks of a container have come to since it was started. The zero
// value is that of one that was not looked at.
type Health struct {
	Failures int64 // in a row
	State    string
}

// After is the health after a check that was made so long after the start.
func (c *Check) After(h Health, ok bool, since time.Duration) Health {
	if h.State == "" {
		h.State = Starting
	}
	switch {
	case ok:
		return Health{State: Healthy}
	case h.State == Starting && since < c.Start():
		return h
	}
	if h.Failures++; h.Failures >= c.Needs() {
		h.State = Unhealthy
	}
	return h
}
