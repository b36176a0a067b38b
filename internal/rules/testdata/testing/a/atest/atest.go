package atest

import "testing"

var _ testing.TB
