package actions

import (
	"errors"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
)

// TestWishes: wishes that nothing would read later are refused, and not forgotten.
func TestWishes(t *testing.T) {
	wants := placement.Wants{Priority: 1}
	create := func(class string) *protocol.Spec {
		args := &protocol.CreateArgs{Template: "busybox"}
		if class != "" {
			args.Class = "unique"
		}
		return &protocol.Spec{Kind: protocol.KindCreate, Args: args}
	}
	for what, c := range map[string]struct {
		req  Request
		spec *protocol.Spec
		want string
	}{
		"no wish":                     {Request{Host: "a"}, &protocol.Spec{Kind: protocol.KindPing}, ""},
		"a placed container":          {Request{Place: true, Wants: wants}, create(""), ""},
		"a unique one on a host":      {Request{Host: "a", Wants: wants}, create("unique"), ""},
		"another one on a host":       {Request{Host: "a", Wants: wants}, create(""), "only a unique container is placed again"},
		"a ping with a wish":          {Request{Host: "a", Wants: wants}, &protocol.Spec{Kind: protocol.KindPing}, "only the creation"},
		"a ping that is to be placed": {Request{Place: true}, &protocol.Spec{Kind: protocol.KindPing}, "only the creation"},
	} {
		err := mayWish(c.req, c.spec)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
