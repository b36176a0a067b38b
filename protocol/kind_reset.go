package protocol

// KindReset tries a broken container again.
const KindReset Kind = "container.reset"

func kindReset() KindInfo {
	return lifecycle(KindReset, "Try a broken container again.", new(NoArgs))
}
