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

// RaisedAlert is an alert of a host that is raised, with what people have said of it.
type RaisedAlert struct {
	Host       string     `json:"host" doc:"The host that has raised it"`
	ID         string     `json:"id" example:"measured.disk.warning//" doc:"The name of the alert on its host, which is the same as long as its cause"`
	Severity   string     `json:"severity" example:"warning" doc:"How bad it is"`
	Text       string     `json:"text" doc:"What is wrong, for people"`
	Since      time.Time  `json:"since" doc:"Since when"`
	AckedBy    string     `json:"acked_by,omitempty" doc:"The person who acknowledged it; left out: it is not acknowledged"`
	AckedAt    *time.Time `json:"acked_at,omitempty" doc:"When it was acknowledged"`
	Note       string     `json:"note,omitempty" doc:"The note of that person"`
	MutedUntil *time.Time `json:"muted_until,omitempty" doc:"Until when no notification is sent for it"`
}

// NewAck says that a person looks after an alert.
type NewAck struct {
	Alert string `json:"alert" maxLength:"1024" example:"measured.disk.critical" doc:"The id of the alert, or how it alone begins"`
	Note  string `json:"note,omitempty" maxLength:"500" example:"a disk is ordered" doc:"What to tell others"`
}

// NewMute says of which alerts no notification is sent, and for how long.
type NewMute struct {
	Host     string `json:"host,omitempty" maxLength:"63" example:"edge-07" doc:"Of this host alone; left out: of every host that the selector selects"`
	Selector string `json:"selector,omitempty" maxLength:"1024" example:"site=lab" doc:"Of the hosts with these labels; left out with host: of all hosts"`
	Alert    string `json:"alert,omitempty" maxLength:"1024" example:"measured.disk." doc:"Of alerts whose id begins so; left out: of all alerts"`
	For      string `json:"for" example:"2h" doc:"For how long, 90 days at most"`
	Reason   string `json:"reason,omitempty" maxLength:"500" example:"new disk" doc:"Why"`
}

// Mute keeps alerts from being told.
type Mute struct {
	ID       string    `json:"id" example:"mute-7" doc:"Its name"`
	Host     string    `json:"host,omitempty" doc:"The only host that it is about"`
	Selector string    `json:"selector,omitempty" doc:"The labels of the hosts that it is about; left out with host: all hosts"`
	Alert    string    `json:"alert,omitempty" doc:"How the ids of the alerts begin that it is about; left out: all"`
	Until    time.Time `json:"until" doc:"When it ends"`
	MutedBy  string    `json:"muted_by" doc:"Who made it"`
	MutedAt  time.Time `json:"muted_at" doc:"When"`
	Reason   string    `json:"reason,omitempty" doc:"Why"`
}
