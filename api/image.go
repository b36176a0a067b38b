package api

// Image is an image of a host: a line of what the kinds about images print.
type Image struct {
	Runtime   string `json:"runtime" example:"lxc" doc:"Whose containers are made of it: lxc or podman."`
	Reference string `json:"reference" example:"registry.example/debian:12" doc:"What it is called by; empty where another image has its name now."`
	Digest    string `json:"digest" example:"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae" doc:"Digest of its manifest."`
	Bytes     int64  `json:"bytes" doc:"What it takes: in lxc as its registry has it, in podman unpacked."`
	UsedMS    int64  `json:"used_ms,omitempty" doc:"When a container was made of it last, Unix milliseconds; left out if it is unknown: podman does not record it."`
}
