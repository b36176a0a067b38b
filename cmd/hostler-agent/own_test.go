package main

import (
	"slices"
	"testing"
)

// TestBucketAccess: a name without a slash is that of a credential of systemd, whose path the
// commands of the agent are told.
func TestBucketAccess(t *testing.T) {
	c := backupsConfig{S3Credentials: []string{"offsite=/etc/hostler/key", "second=s3-key"}, S3CAFile: "/etc/hostler/ca.pem"}
	for dir, want := range map[string][]string{
		"":                              {"offsite=/etc/hostler/key", "second=s3-key"},
		"/run/credentials/hostler.unit": {"offsite=/etc/hostler/key", "second=/run/credentials/hostler.unit/s3-key"},
	} {
		t.Setenv("CREDENTIALS_DIRECTORY", dir)
		if a := c.access(); !slices.Equal(a.Credentials, want) || a.CAFile != c.S3CAFile {
			t.Errorf("with %q: %+v, want %q", dir, a, want)
		}
	}
}
