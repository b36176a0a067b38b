package protocol

// KindFreeze keeps the processes of a container from running.
const KindFreeze Kind = "container.freeze"

func kindFreeze() KindInfo {
	return lifecycle(KindFreeze, "Keep all processes of a running container from running.", new(NoArgs))
}
