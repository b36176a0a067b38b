package agent

import "github.com/hostler-io/hostler/protocol"

func alerts() []protocol.AlertInfo {
	none := protocol.AlertInfo{}
	return []protocol.AlertInfo{
		none,
		{ID: "new"},                     // want
		protocol.AlertInfo{Text: "who"}, // want
	}
}
