package core

import "strings"

// CoordinatorAlert begins the ids of alerts about a host that the coordinator raises,
// because the host cannot. What a host tells under such an id is left out.
const CoordinatorAlert = "coordinator."

// JudgedByCoordinator reports whether an alert is one of those.
func JudgedByCoordinator(id string) bool { return strings.HasPrefix(id, CoordinatorAlert) }
