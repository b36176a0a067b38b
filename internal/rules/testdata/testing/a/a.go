package a

import (
	"net/http/httptest" // shipped code of the standard library's making
	"testing"           // want

	"github.com/hostler-io/hostler/broker/brokertest" // want
)

var (
	_ testing.TB
	_ brokertest.Server
	_ httptest.Server
)
