package agents

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
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

// Describe asks a program what it can do. It speaks to no device.
func (r Runner) Describe(ctx context.Context, agent string) (Metadata, error) {
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
