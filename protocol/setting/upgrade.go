package setting

import "fmt"

// Upgrade asks for another image of a container.
type Upgrade struct {
	Image string `json:"image,omitzero" example:"\"registry.example/web:2\"" doc:"The image that it becomes one of. Left out: the one that it was made from, as its registry has it now."`
	// The default is that of a creation, unless it is the same reference again.
	Pull          string `json:"pull,omitzero" enum:"missing,always,never" doc:"When the image is fetched: missing, if the host does not have it (the default with an image); always, although it may (the default without one); never."`
	WaitMS        int64  `json:"wait_ms,omitzero" min:"0" max:"3000000" example:"120000" doc:"How long it may take until it is healthy, in milliseconds. 0 is as long as its check allows. One without a check has to run for 10 seconds."`
	DropSnapshots bool   `json:"drop_snapshots,omitzero" doc:"Remove its snapshots, which are of the old image. Without this, a container that has some is left as it is."`
}

// Check reports what is wrong with it.
func (u *Upgrade) Check() error {
	if err := CheckTemplate(u.Image); err != nil && u.Image != "" {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}
