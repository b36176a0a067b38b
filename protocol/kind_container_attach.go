package protocol

// KindContainerAttach is an interactive session in a container.
const KindContainerAttach Kind = "container.attach"

func kindContainerAttach() KindInfo {
	return inContainer(kindAttach(), KindContainerAttach, "Open an interactive session in a running container.", LaneSession)
}
