package image

// What tests of untrusted bytes reach.
var (
	ParseManifest = parseManifest
	ParseConfig   = parseConfig
	Choose        = choose
	Parse         = parse
)

// ParseProducts returns the form and version of what it finds.
func ParseProducts(raw []byte, alias, version string) (kind, of string, err error) {
	item, of, err := parseProducts(raw, alias, version)
	return item.Type, of, err
}
