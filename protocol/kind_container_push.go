package protocol

// KindContainerPush brings files into a container, running or stopped.
const KindContainerPush Kind = "container.push"

func kindContainerPush() KindInfo {
	return inContainer(kindHostPush(), KindContainerPush, "Bring files into a container, running or stopped.", LaneContainer)
}
