package protocol

// KindReset tries a broken container again.
const KindReset Kind = "container.reset"

func kindReset() KindInfo {
	i := lifecycle(KindReset, "Try a broken container again.", new(NoArgs))
	i.Starts = true
	return i
}
