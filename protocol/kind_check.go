package protocol

// KindHostCheck prints what keeps the host from doing its work, as JSON.
const KindHostCheck Kind = "host.check"

func kindHostCheck() KindInfo {
	return printing(KindHostCheck, "Look on the host for what keeps it from doing its work.", execTimeout, new(ExportArgs))
}
