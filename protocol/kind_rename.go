package protocol

// KindRename gives a stopped container another name. Actions that wait for it stay
// its own.
const KindRename Kind = "container.rename"

func kindRename() KindInfo {
	return lifecycle(KindRename, "Give a stopped container another name.", new(RenameArgs))
}

// RenameArgs are the arguments of a rename.
type RenameArgs struct {
	_       struct{}      `required:"new_name"`
	NewName ContainerName `json:"new_name,omitzero" example:"\"shop\"" doc:"The next name of the container."`
}

func (*RenameArgs) check() error { return nil }
