package protocol

// KindContainerPull writes files of a container to its stdout, as an archive.
const KindContainerPull Kind = "container.pull"

func kindContainerPull() KindInfo {
	return inContainer(kindHostPull(), KindContainerPull, "Fetch files of a container, running or stopped.", LaneHost)
}
