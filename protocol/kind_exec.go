package protocol

// KindExec runs a command in a container.
const KindExec Kind = "container.exec"

func kindExec() KindInfo {
	return inContainer(kindRun(), KindExec, "Run a command in a running container.", LaneContainer)
}
