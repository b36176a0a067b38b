package protocol

// KindStart starts a container and keeps it running.
const KindStart Kind = "container.start"

func kindStart() KindInfo {
	i := lifecycle(KindStart, "Start a container and keep it running.", new(NoArgs))
	i.Starts = true
	return i
}
