package protocol

import "fmt"

// KindHostPush brings files to the host.
const KindHostPush Kind = "host.push"

func kindHostPush() KindInfo {
	return KindInfo{
		Kind: KindHostPush, Doc: "Bring files to the host.",
		Target: TargetHost, Lane: LaneHost, Attempts: 3, RunTimeout: lifecycleTimeout, StartTTL: startTTL,
		RootEquivalent: true, Cancellable: true, Command: true, form: formOf(new(PushArgs)),
	}
}

// PushArgs are the arguments of a push. Its payload is the bytes of one file, and
// none for an empty file, or an archive.
type PushArgs struct {
	_ struct{} `required:"files"`
	TimeLimit
	Input
	Files *FileArgs `json:"files,omitempty" example:"{\"paths\":[\"/etc/motd\"],\"mode\":\"0644\"}" doc:"Where the files belong."`
}

func (p *PushArgs) files() *FileArgs { return p.Files }

func (p *PushArgs) check() error {
	switch f := p.Files; {
	case f == nil:
		return nil // the tags say so
	case len(f.Paths) != 1:
		return fmt.Errorf("paths: %d, where a push has 1", len(f.Paths))
	case f.Have != 0 || !f.HaveSHA256.IsZero():
		return fmt.Errorf("have: only a pull has some")
	case f.Archive && (f.Name != "" || f.Mode != "" || f.Owner != ""):
		return fmt.Errorf("name, mode and owner belong to a push of one file")
	case f.Archive && p.none():
		return fmt.Errorf("stdin: the archive is missing")
	case !f.Archive:
		if _, err := f.FileMode(); err != nil {
			return err
		}
	}
	return checkAll(p.Files, &p.TimeLimit, &p.Input)
}
