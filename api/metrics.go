package api

// MetricLine is what one series of a host or of a container was over time: a line of
// what the kind host.metrics prints.
type MetricLine struct {
	Container string        `json:"container,omitempty" doc:"Name of the container; absent for the host."`
	Metric    string        `json:"metric" example:"cpu"`
	Part      string        `json:"part,omitempty" doc:"Mount point, disk, interface or zone, where the metric has several."`
	Unit      string        `json:"unit,omitempty" doc:"%, B, B/s or °C; absent for a count."`
	Points    []MetricPoint `json:"points"`
}

// MetricPoint is one sample of a series.
type MetricPoint struct {
	AtMS   int64   `json:"at_ms" doc:"End of the sample by the host's wall clock, Unix milliseconds."`
	SpanMS int64   `json:"span_ms" doc:"How much time it covers, in milliseconds."`
	Mean   float64 `json:"mean"`
	Max    float64 `json:"max"`
}
