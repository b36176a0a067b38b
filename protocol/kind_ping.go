package protocol

// KindPing ends as soon as it starts: it proves the way to the host and back.
const KindPing Kind = "host.ping"

func kindPing() KindInfo {
	return KindInfo{
		Kind: KindPing, Doc: "Prove the way to the host and back.",
		Target: TargetHost, Lane: LaneNone, Attempts: 3, StartTTL: startTTL, form: formOf(new(NoArgs)),
	}
}
