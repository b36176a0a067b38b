package protocol

import "fmt"

// KindHostPull writes files of the host to its stdout, as an archive.
const KindHostPull Kind = "host.pull"

func kindHostPull() KindInfo {
	return KindInfo{
		Kind: KindHostPull, Doc: "Fetch files of the host.",
		Target: TargetHost, Lane: LaneHost, Attempts: 1, RunTimeout: lifecycleTimeout, StartTTL: startTTL,
		RootEquivalent: true, Cancellable: true, Command: true, form: formOf(new(PullArgs)),
	}
}

// PullArgs are the arguments of a pull.
type PullArgs struct {
	_ struct{} `required:"files"`
	TimeLimit
	Files *FileArgs `json:"files,omitempty" example:"{\"paths\":[\"/var/log\"]}" doc:"Which files are fetched."`
	OutputOption
}

func (p *PullArgs) files() *FileArgs { return p.Files }

func (p *PullArgs) check() error {
	switch f := p.Files; {
	case f == nil:
		return nil // the tags say so
	case len(f.Paths) == 0 || len(f.Paths) > MaxPaths:
		return fmt.Errorf("paths: %d, where a pull has 1 to %d", len(f.Paths), MaxPaths)
	case f.Have < 0 || f.Have > MaxPayload || (f.Have == 0) != f.HaveSHA256.IsZero():
		return fmt.Errorf("have: %d bytes, want 1 to %d with their digest", f.Have, int64(MaxPayload))
	case f.Name != "" || f.Archive || f.Mode != "" || f.Owner != "":
		return fmt.Errorf("name, archive, mode and owner belong to a push")
	}
	return checkAll(p.Files, &p.TimeLimit)
}
