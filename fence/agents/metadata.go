package agents

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// describing is how long a program may take to describe itself.
const describing = 10 * time.Second

// Metadata is what a program says of itself.
type Metadata struct {
	// Plug is the parameter that names the host to the device, empty if there is none.
	Plug string
	// On, Off and Status tell what can be asked for.
	On, Off, Status bool
	// Params are the names of all parameters, and Required those that must be given.
	Params, Required []string
}

// Descriptions are what programs have said of themselves, by their paths. The zero value is
// empty. It is safe for concurrent use.
type Descriptions struct {
	mu  sync.Mutex
	all map[string]described
}

// described is what a program has said when its file was of that time and size.
type described struct {
	changed time.Time
	size    int64
	said    Metadata
}

func (d *Descriptions) get(path string, i fs.FileInfo) (Metadata, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.all[path]
	return x.said, ok && x.changed.Equal(i.ModTime()) && x.size == i.Size()
}

func (d *Descriptions) put(path string, i fs.FileInfo, m Metadata) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[string]described)
	}
	d.all[path] = described{i.ModTime(), i.Size(), m}
}

// Describe asks a program what it can do, or returns what that said before if its file is the
// same still. It speaks to no device.
func (r Runner) Describe(ctx context.Context, agent string) (Metadata, error) {
	path := filepath.Join(r.Dir, agent)
	i, err := os.Stat(path)
	if err == nil && r.Known != nil {
		if m, ok := r.Known.get(path, i); ok {
			return m, nil
		}
	}
	m, failed := r.describe(ctx, agent)
	if err == nil && failed == nil && r.Known != nil {
		r.Known.put(path, i, m)
	}
	return m, failed
}

func (r Runner) describe(ctx context.Context, agent string) (Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, describing)
	defer cancel()
	out, code, err := r.exec(ctx, agent, []byte("action=metadata\n"), maxMetadata)
	switch {
	case ctx.Err() != nil:
		return Metadata{}, fmt.Errorf("%s has not described itself within %s", agent, describing)
	case err != nil:
		return Metadata{}, err
	case code != 0:
		return Metadata{}, fmt.Errorf("%s does not describe itself: exit code %d", agent, code)
	}
	m, err := parse(out)
	if err != nil {
		return Metadata{}, fmt.Errorf("%s: %w", agent, err)
	}
	return m, nil
}

// parse reads the description of a program.
func parse(b []byte) (m Metadata, err error) {
	var doc struct {
		XMLName xml.Name `xml:"resource-agent"`
		Params  []struct {
			Name     string `xml:"name,attr"`
			Required string `xml:"required,attr"`
		} `xml:"parameters>parameter"`
		Actions []struct {
			Name string `xml:"name,attr"`
		} `xml:"actions>action"`
	}
	if err := xml.Unmarshal(b, &doc); err != nil {
		return m, errors.New("its description is no XML of a resource agent")
	}
	for _, p := range doc.Params {
		m.Params = append(m.Params, p.Name)
		switch {
		case p.Name == "plug", p.Name == "port" && m.Plug == "":
			m.Plug = p.Name
		case p.Required == "1" && p.Name != "action":
			m.Required = append(m.Required, p.Name)
		}
	}
	for _, a := range doc.Actions {
		switch a.Name {
		case "on", "enable":
			m.On = true
		case "off", "disable":
			m.Off = true
		case "status":
			m.Status = true
		}
	}
	if !m.Off {
		return m, errors.New("it cannot switch anything off")
	}
	return m, nil
}
