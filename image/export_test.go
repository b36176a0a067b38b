package image

// What tests of untrusted bytes reach.
var (
	ParseManifest = parseManifest
	ParseConfig   = parseConfig
	Choose        = choose
	Parse         = parse
)
