package protocol

// KindUnfreeze lets them run again.
const KindUnfreeze Kind = "container.unfreeze"

func kindUnfreeze() KindInfo {
	return lifecycle(KindUnfreeze, "Let the processes of a frozen container run again.", new(NoArgs))
}
