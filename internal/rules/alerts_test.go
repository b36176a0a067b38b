package rules

import (
	"go/ast"
	"go/types"
)

// checkAlerts refuses an alert that is written down where it is raised: nobody would be
// told what it means and what to do about it.
func checkAlerts(c *check) {
	if c.pkg.support() || c.pkg.path == "internal/warnings" {
		return
	}
	for _, f := range c.shipped() {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || len(lit.Elts) == 0 {
				return true
			}
			if t, ok := c.tree.info.TypeOf(lit).(*types.Named); ok && t.Obj().Name() == "AlertInfo" && t.Obj().Pkg().Name() == "protocol" {
				c.report(lit, "declare the warning in internal/warnings, and let warnings.New make the alert")
			}
			return true
		})
	}
}
