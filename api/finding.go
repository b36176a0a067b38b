package api

// The results of a check.
const (
	FindingOK      = "ok"
	FindingWarning = "warning" // it works, and a person should look at it
	FindingFailed  = "failed"
)

// Finding is the result of one check of a host, or of a coordinator.
type Finding struct {
	Check  string `json:"check" example:"database" doc:"What was looked at"`
	Result string `json:"result" enum:"ok,warning,failed" doc:"Whether it is well"`
	Cause  string `json:"cause,omitempty" doc:"What is wrong, for people"`
	Mend   string `json:"mend,omitempty" doc:"The command that mends it, or where to look"`
}
