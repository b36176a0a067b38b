package image

import (
	"errors"
	"strings"
	"testing"
)

// TestReferenceIsNone: people learn what is wrong with it.
func TestReferenceIsNone(t *testing.T) {
	for reference, want := range map[string]string{
		"debian:12":                            "does not say its registry",
		"registry.example/x:1":                 "repository must be between 2 and 255 characters",
		"registry.example/Debian:12":           "repository can only contain the characters",
		"registry.example/debian:1 2":          "tag can only contain the characters",
		"registry.example/debian@sha256:12":    "invalid checksum digest length",
		"registry.example/debian@sha1:1234567": "unsupported digest algorithm: sha1",
	} {
		if _, err := parse(reference); !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v, want %q", reference, err, want)
		}
	}
}
