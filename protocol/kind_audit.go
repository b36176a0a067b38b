package protocol

// KindHostAudit writes the audit log of the host to its stdout, signed by the host.
const KindHostAudit Kind = "host.audit"

func kindHostAudit() KindInfo {
	return KindInfo{
		Kind: KindHostAudit, Doc: "Export the audit log of the host, signed with its key.",
		Target: TargetHost, Lane: LaneHost, Attempts: 1, RunTimeout: lifecycleTimeout, StartTTL: startTTL,
		Cancellable: true, Command: true, Prints: true, form: formOf(new(ExportArgs)),
	}
}

// ExportArgs are the arguments of an export.
type ExportArgs struct {
	TimeLimit
	OutputOption
}
