package warnings

import "github.com/hostler-io/hostler/protocol"

func New() protocol.AlertInfo { return protocol.AlertInfo{ID: "declared"} }
