package protocol

// KindInspect prints what the host knows of a container, as JSON.
const KindInspect Kind = "container.inspect"

func kindInspect() KindInfo {
	return inContainer(printing("", "", execTimeout, new(ExportArgs)), KindInspect, "Print what the host knows of a container: how it ended the last ten times.", LaneHost)
}
