package protocol

// KindHostCheck prints what keeps the host from doing its work, as JSON.
const KindHostCheck Kind = "host.check"

func kindHostCheck() KindInfo {
	i := kindHostMetrics()
	i.Kind, i.Doc, i.form = KindHostCheck, "Look on the host for what keeps it from doing its work.", formOf(new(ExportArgs))
	return i
}
