package api

import "time"

// FenceDevice is a fence device: a program of fence-agents, what it is told, and the hosts
// that it can switch off. Secrets are never in it, only the names of their files.
type FenceDevice struct {
	Name      string            `json:"name" doc:"Name of the device"`
	Agent     string            `json:"agent" doc:"Program of fence-agents that speaks to it, such as fence_ipmilan"`
	Via       string            `json:"via,omitempty" doc:"Host that asks the device; empty if the coordinator does" example:"gw-01"`
	Params    map[string]string `json:"params" doc:"Parameters of the program"`
	Secrets   map[string]string `json:"secrets" doc:"Parameters whose values are in files of the coordinator, with the name of each file"`
	Hosts     []FenceTarget     `json:"hosts" doc:"Hosts that it can switch off"`
	Delay     string            `json:"delay" doc:"How long is waited before it is used first" example:"5s"`
	Random    string            `json:"random" doc:"How much longer is waited at most, by chance" example:"0s"`
	Tries     int               `json:"tries" doc:"How often an off is sent at most"`
	Timeout   string            `json:"timeout" doc:"How long a try may take" example:"1m0s"`
	Trouble   string            `json:"trouble,omitempty" doc:"Why it did not answer when it was asked last"`
	CheckedAt *time.Time        `json:"checked_at,omitempty" doc:"When it was asked last"`
	AddedAt   time.Time         `json:"added_at" doc:"When it was added"`
	AddedBy   string            `json:"added_by" doc:"Who added it"`
}

// FenceTarget is a host that a device can switch off.
type FenceTarget struct {
	Host   string     `json:"host" doc:"Host"`
	Plug   string     `json:"plug,omitempty" doc:"What the device calls the host"`
	Level  int        `json:"level" doc:"Level, 1 to 9: all devices of level 1 are used first; the next level follows if one of them fails"`
	Delay  string     `json:"delay,omitempty" doc:"How much longer is waited before this host is switched off" example:"5s"`
	Why    string     `json:"why,omitempty" doc:"Why the device is not used for this host; empty if it is"`
	SeenAt *time.Time `json:"seen_at,omitempty" doc:"When the device last said that the host is on while the host was heard"`
}

// NewFenceDevice is a device as it is set.
type NewFenceDevice struct {
	Agent   string            `json:"agent,omitempty" maxLength:"63" doc:"Program of fence-agents that speaks to it; empty if another host asks the device" example:"fence_ipmilan"`
	Via     string            `json:"via,omitempty" maxLength:"63" doc:"Host that asks the device, which it describes in a file of its own; empty: the coordinator asks it" example:"gw-01"`
	Params  map[string]string `json:"params,omitempty" doc:"Parameters of the program" example:"{\"ip\":\"192.0.2.7\"}"`
	Secrets map[string]string `json:"secrets,omitempty" doc:"Parameters whose values are in files of the coordinator, with the name of each file" example:"{\"password\":\"bmc-07\"}"`
	Hosts   []NewFenceTarget  `json:"hosts" minItems:"1" maxItems:"200" doc:"Hosts that it can switch off"`
	Delay   string            `json:"delay,omitempty" maxLength:"20" doc:"How long is waited before it is used first" example:"5s"`
	Random  string            `json:"random,omitempty" maxLength:"20" doc:"How much longer is waited at most, by chance" example:"5s"`
	Tries   int               `json:"tries,omitempty" minimum:"0" maximum:"5" doc:"How often an off is sent at most; 0 is 2" example:"2"`
	Timeout string            `json:"timeout,omitempty" maxLength:"20" doc:"How long a try may take; empty is 1m" example:"1m"`
}

// NewFenceTarget is a host of a device as it is set.
type NewFenceTarget struct {
	Host  string `json:"host" maxLength:"63" doc:"Host" example:"edge-07"`
	Plug  string `json:"plug,omitempty" maxLength:"128" doc:"What the device calls the host" example:"4"`
	Level int    `json:"level,omitempty" minimum:"0" maximum:"9" doc:"Level, 1 to 9; 0 is 1" example:"1"`
	Delay string `json:"delay,omitempty" maxLength:"20" doc:"How much longer is waited before this host is switched off" example:"5s"`
}

// Fence is one operation that switches a host off or on, or the word of a person that it is
// off; or a host that would be fenced, with what keeps it from that.
type Fence struct {
	ID         string      `json:"id,omitempty" doc:"Id; none of what is held back"`
	Host       string      `json:"host" doc:"Host"`
	Action     string      `json:"action" enum:"off,reboot,unfence,confirm" doc:"What is to become of the host; confirm: a person has signed that it is off"`
	State      string      `json:"state" enum:"held,delayed,sending,confirming,powering,done,failed" doc:"Where it stands; held: it is held back"`
	Cause      string      `json:"cause" enum:"person,host_lost,stop_failed" doc:"What has led to it"`
	By         string      `json:"by,omitempty" doc:"Who asked for it"`
	Reason     string      `json:"reason,omitempty" doc:"Why, in the words of who asked; of what is held back: by what"`
	Evidence   []string    `json:"evidence" doc:"What was seen"`
	Proof      string      `json:"proof,omitempty" doc:"What shows that the host is off; empty if nothing does"`
	Log        []FenceLine `json:"log" doc:"What was done, and what the devices said"`
	Closes     bool        `json:"closes" doc:"Whether the host is granted nothing because of it"`
	BegunAt    *time.Time  `json:"begun_at,omitempty" doc:"When it began"`
	EndedAt    *time.Time  `json:"ended_at,omitempty" doc:"When it ended"`
	ReturnedAt *time.Time  `json:"returned_at,omitempty" doc:"When the host was let in again"`
}

// FenceLine is a line of the log of a fence.
type FenceLine struct {
	At   time.Time `json:"at" doc:"When"`
	Text string    `json:"text" doc:"What"`
}

// NewFence asks to fence a host.
type NewFence struct {
	Action    string `json:"action,omitempty" enum:"off,reboot" doc:"What is to become of the host; empty is what the configuration says" example:"off"`
	Reason    string `json:"reason,omitempty" maxLength:"500" doc:"Why, for the history" example:"it hangs"`
	Tolerance string `json:"tolerance,omitempty" maxLength:"20" doc:"How old a fence may be that counts as this one" example:"30s"`
}

// NewUnfence asks to switch a host on and to let it in again.
type NewUnfence struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why, for the history" example:"its disk was replaced"`
}

// FenceCase is what a person signs about when it confirms that a host is off.
type FenceCase struct {
	Host   string `json:"host" doc:"Host"`
	Case   string `json:"case" doc:"Digest of this silence; it changes when the host is heard, and when the coordinator starts"`
	Silent string `json:"silent,omitempty" doc:"For how long the host was silent; missing if it was not heard since the coordinator started" example:"5m0s"`
	Holds  int    `json:"holds" doc:"How many unique containers it holds, or may still run"`
}

// NewFenceConfirmation is the signed word of a person.
type NewFenceConfirmation struct {
	Signed []byte `json:"signed" minLength:"1" maxLength:"2800" doc:"A fenced/1 document, signed by an approver" example:"eyJ2IjoxfQ=="`
}
