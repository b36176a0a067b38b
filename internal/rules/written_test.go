package rules

import (
	"go/ast"
	"slices"
)

// writers are the packages and functions that write files which nothing of ours reads
// again with a limit.
var writers = []struct{ name, why string }{
	{"dev", "files of a fleet that lasts as long as its directory, read by the programs as those of people"},
	{"network/names", "names, for the program that serves them and for the programs of containers"},
	{"internal/manual", "pages for man(1)"},
	{"packaging", "packages, made where they are built"},
	{"integration/cmd/bench", "figures, and fleets that end with the program"},
	{"integration/cmd/lonely", "writes that never end, on a machine of a test"},
	{"integration/cmd/pulse", "beats of a container, for the test that has made it"},
	{"(cmd/hostler-agent.upgrader).manage", "the log of another program, of which the end alone is told"},
}

// checkWritten refuses what writes a file without a limit: what is written must be read
// again, by readers that have one. Mode 0 makes no file: so are files of the kernel
// written.
func checkWritten(c *check) {
	if c.pkg.support() || c.writes(c.pkg.path) {
		return
	}
	for _, f := range c.shipped() {
		if f.neverReleased() {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && c.writes(funcName(c.tree, fn)) {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				mode, ok := call.Args[len(call.Args)-1].(*ast.BasicLit)
				kernel := ok && mode.Value == "0"
				if name := c.name(sel.Sel); name == "os.Create" || name == "os.WriteFile" && !kernel {
					c.report(call, "%s has no limit: write with that of the reader (internal/durable, rundir.WriteCapped)", name)
				}
				return true
			})
		}
	}
}

func (c *check) writes(name string) bool {
	return slices.ContainsFunc(writers, func(w struct{ name, why string }) bool { return w.name == name })
}
