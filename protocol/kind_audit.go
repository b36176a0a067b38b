package protocol

// KindHostAudit writes the audit log of the host to its stdout, signed by the host.
const KindHostAudit Kind = "host.audit"

func kindHostAudit() KindInfo {
	return printing(KindHostAudit, "Export the audit log of the host, signed with its key.", lifecycleTimeout, new(ExportArgs))
}

// ExportArgs are the arguments of a kind that prints and is asked for nothing else.
type ExportArgs struct {
	TimeLimit
	OutputOption
}
