package protocol

// KindRestart stops a container and starts it again.
const KindRestart Kind = "container.restart"

func kindRestart() KindInfo {
	i := lifecycle(KindRestart, "Stop a container, and start it again.", new(StopArgs))
	i.Starts = true
	return i
}
