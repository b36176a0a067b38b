package data

// Clone asks for a container with the files of another one of its host.
type Clone struct {
	_          struct{} `required:"source,source_name"`
	Source     string   `json:"source,omitzero" example:"\"019300a0-0000-7000-8000-000000000001\"" doc:"The id of the container whose files are copied."`
	SourceName string   `json:"source_name,omitzero" example:"\"web\"" doc:"The name of that container, as people know it: one that is called otherwise is refused."`
	Hostname   string   `json:"hostname,omitzero" example:"\"web-2\"" doc:"The name that the clone calls itself. Empty is its name."`
	Start      bool     `json:"start,omitzero" doc:"Start it too."`
}
