package protocol

// KindDestroy removes a container with its file system.
const KindDestroy Kind = "container.destroy"

func kindDestroy() KindInfo {
	i := lifecycle(KindDestroy, "Destroy a container with its file system.", new(StopArgs))
	i.Removes = true
	return i
}
