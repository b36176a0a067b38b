package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// vague are names of types that meant several things once, and say nothing to those
// who are new. The glossary of ARCHITECTURE.md has the words for them.
var vague = []string{"session", "place", "taken", "kept", "part", "names", "voice", "lane"}

// clear are types that may bear one of these names: here it means what the glossary says.
var clear = []struct{ name, why string }{
	{"client.Session", "an interactive session, as its user sees it"},
	{"runner/supervise.session", "an interactive session, as its supervisor sees it"},
	{"protocol.Lane", "the lock of the glossary"},
}

// checkWords refuses names of types that say nothing.
func checkWords(c *check) {
	c.eachType(func(f *file, spec *ast.TypeSpec, _ *types.Named) {
		name := c.pkg.path + "." + spec.Name.Name
		if f.test || !slices.Contains(vague, strings.ToLower(spec.Name.Name)) || slices.ContainsFunc(clear, func(x struct{ name, why string }) bool { return x.name == name }) {
			return
		}
		c.excess(spec.Name, name, "%s means nothing, or too much: name the thing", spec.Name.Name)
	})
}
