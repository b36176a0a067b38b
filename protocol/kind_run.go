package protocol

// KindRun runs a command on the host.
const KindRun Kind = "host.run"

func kindRun() KindInfo {
	return KindInfo{
		Kind: KindRun, Doc: "Run a command on the host.",
		Target: TargetHost, Lane: LaneHost, Attempts: 1, RunTimeout: execTimeout, StartTTL: startTTL,
		RootEquivalent: true, Cancellable: true, Command: true, form: formOf(new(CommandArgs)),
	}
}

// CommandArgs are the arguments of a command.
type CommandArgs struct {
	_ struct{} `required:"argv"`
	Process
	TimeLimit
	Exclusive bool `json:"exclusive,omitzero" doc:"Run it alone on the host."`
	Input
	OutputOption
	// Daemon lets the main process end before the others that it has made, and
	// lets others begin once it has begun.
	Daemon bool `json:"daemon,omitzero" doc:"The action runs until no process of it is left, and others on the container need not wait for it."`
	Secrets
}

// Command returns the arguments of a command without options.
func Command(argv ...string) *CommandArgs { return &CommandArgs{Process: Process{Argv: argv}} }

func (c *CommandArgs) check() error {
	return checkAll(&c.Process, &c.TimeLimit, &c.Input, &c.Secrets)
}
