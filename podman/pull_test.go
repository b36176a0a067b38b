package podman_test

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/podmantest"
)

// TestPull: an image that podman does not have is pulled from its registry, once, and
// one that cannot be says why and what to do. Nothing is left of such a creation.
func TestPull(t *testing.T) {
	registry := podmantest.Registry(t)
	m := newMachine(t, registry)
	name := registry + "/web:12"
	m.service.Podman(t, "push", "--quiet", podmantest.Image, name)
	first, second := m.specs(), m.specs()
	first.Template, second.Template = name, name
	if err := m.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if info, err := m.Start(t.Context(), first.Name); err != nil || info.Template != name || info.State != container.StateRunning {
		t.Errorf("%+v, %v", info, err)
	}
	// Something else is called so now, and what is here already is not asked for again.
	m.service.Podman(t, "push", "--quiet", m.service.Image(t, "other", `CMD ["/bin/false"]`), name)
	if err := m.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Start(t.Context(), second.Name); err != nil {
		t.Errorf("the second is of another image: %v", err)
	}
	for image, hint := range map[string]string{
		registry + "/web:13":          "check the name and the tag",
		registry + "/nothing/of-it:1": "check the name and the tag",
		"127.0.0.1:1/web:1":           "reaches the registry",
		"web-of-no-registry":          "registry.example/web-of-no-registry",
	} {
		spec := m.specs()
		spec.Template = image
		err := m.Create(t.Context(), spec)
		if err == nil || !strings.Contains(err.Error(), "pulling "+image) || !strings.Contains(err.Error(), hint) {
			t.Errorf("of %s: %v; want the hint %q", image, err, hint)
		}
		if _, err := m.Inspect(t.Context(), spec.Name); err == nil {
			t.Errorf("%s was made", spec.Name)
		}
	}
}
