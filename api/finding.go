package api

// The results of a check.
const (
	FindingOK      = "ok"
	FindingWarning = "warning" // it works, and a person should look at it
	FindingFailed  = "failed"
)

// Room is the space on a file system.
type Room struct {
	FileSystem string `json:"file_system" example:"8:1" doc:"The file system: the same word for directories that share one"`
	Free       int64  `json:"free_bytes" doc:"How much is free"`
}

// Finding is the result of one check of a host, or of a coordinator.
type Finding struct {
	Check  string `json:"check" example:"database" doc:"What was looked at"`
	Result string `json:"result" enum:"ok,warning,failed" doc:"Whether it is well"`
	Cause  string `json:"cause,omitempty" doc:"What is wrong, for people"`
	Mend   string `json:"mend,omitempty" doc:"The command that mends it, or where to look"`
	// Room is what the check of a directory has found of its file system; nil of other checks.
	Room *Room `json:"room,omitempty" doc:"How much space is left, if space was looked at"`
}
