package api

import "time"

// NewAlertRule is what a name is to stand for.
type NewAlertRule struct {
	Host     string   `json:"host,omitempty" maxLength:"63" example:"edge-07" doc:"The only host that it is for; left out: every host that the selector selects"`
	Selector string   `json:"selector,omitempty" maxLength:"1024" example:"site=lab,tier!=db" doc:"The labels of the hosts that it is for; left out with host: all hosts"`
	Of       string   `json:"of,omitempty" maxLength:"255" default:"host" example:"web" doc:"What of a host it is about: host, the name of a container, or * for each container"`
	Rules    []string `json:"rules" minItems:"1" maxItems:"32" example:"[\"ram=80%/60s\"]" doc:"Quantities with a threshold, each QUANTITY=THRESHOLD[/TIME][:SEVERITY]; see doc/metrics.md"`
}

// AlertRule is what a name stands for.
type AlertRule struct {
	Name     string    `json:"name" example:"memory" doc:"The name of the rule, which no other has"`
	Host     string    `json:"host,omitempty" doc:"The only host that it is for"`
	Selector string    `json:"selector,omitempty" doc:"The labels of the hosts that it is for; left out with host: all hosts"`
	Of       string    `json:"of" doc:"What of a host it is about: host, the name of a container, or * for each container"`
	Rules    []string  `json:"rules" doc:"Quantities with a threshold, a time and a severity"`
	Number   uint64    `json:"number" doc:"The change of all rules that made it so; it is the ETag too"`
	SetBy    string    `json:"set_by" doc:"Who set it"`
	SetAt    time.Time `json:"set_at" doc:"When"`
}
