package protocol

// KindStopNow stops a container past everything that waits, ending what runs.
const KindStopNow Kind = "container.stop-now"

func kindStopNow() KindInfo {
	i := lifecycle(KindStopNow, "Stop a container at once, past everything that waits, ending what runs in it.", new(StopArgs))
	i.Lane = LanePreempt
	return i
}
