package a

import "testing"

var _ testing.TB
