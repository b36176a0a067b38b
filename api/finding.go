package api

// The results of a check.
const (
	FindingOK      = "ok"
	FindingWarning = "warning" // it works, and a person should look at it
	FindingFailed  = "failed"
)

// Finding is the result of one check of a host.
type Finding struct {
	Check  string `json:"check"`
	Result string `json:"result" enum:"ok,warning,failed"`
	Cause  string `json:"cause,omitempty"` // of a check that is not ok
	Mend   string `json:"mend,omitempty"`  // the command that mends it, or where to look
}
