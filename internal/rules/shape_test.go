package rules

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"
)

// The limits of the shape of the tree. What is larger holds more than one topic.
const (
	maxMethodsOfInterface = 7
	maxMethods            = 40
	maxFields             = 25
	maxPackage            = 5000 // lines of code that is shipped
	maxFile               = 600
	maxTestFile           = 900
)

// A record is a struct that only carries values from one place to another, and
// may have as many fields as there are values.
type record struct{ name, why string }

var records = []record{
	{"agent.Config", "configuration"},
	{"api.Action", "an answer of the API"},
	{"api.Host", "an answer of the API"},
	{"coordinator/core.Action", "a row of the store"},
}

// An exemption lets one package, file or type break one rule for now.
type exemption struct{ rule, name, why string }

// pending are the exemptions. The list may only shrink, and an entry that is no
// longer needed fails.
var pending = []exemption{}

// excess reports that something is larger than it may be, unless it is pending.
func (c *check) excess(n ast.Node, name, format string, args ...any) {
	if c.tree.exempt(c.rule, name) {
		return
	}
	c.report(n, format, args...)
}

// exempt reports whether the name may break the rule for now, and notes that it does.
func (t *tree) exempt(rule, name string) bool {
	for _, e := range t.pending {
		if e.rule == rule && e.name == name {
			t.used[e] = true
			return true
		}
	}
	return false
}

// stale are the lines of the tables that nothing needs, once all rules have looked
// at the tree.
func stale(tr *tree) []string {
	var lines []string
	for _, e := range tr.pending {
		if !tr.used[e] {
			lines = append(lines, fmt.Sprintf("%s no longer breaks the rule %q: strike it from the pending ones", e.name, e.rule))
		}
	}
	for _, r := range tr.records {
		if !tr.large[r] {
			lines = append(lines, fmt.Sprintf("%s is no struct of more than %d fields: strike it from the records", r.name, maxFields))
		}
	}
	for _, name := range tr.pauses {
		if !tr.pausing[name] {
			lines = append(lines, fmt.Sprintf("%s does not exist: strike it from the pauses", name))
		}
	}
	return lines
}

func checkInterface(c *check) {
	c.eachType(func(f *file, spec *ast.TypeSpec, named *types.Named) {
		in, ok := named.Underlying().(*types.Interface)
		if ok && !f.test && in.NumMethods() > maxMethodsOfInterface {
			c.excess(spec.Name, c.pkg.path+"."+spec.Name.Name, "%d methods, at most %d: split it by the callers that need them", in.NumMethods(), maxMethodsOfInterface)
		}
	})
}

// checkStruct looks at what is shipped: the world of a test has as many helpers as
// there is to test.
func checkStruct(c *check) {
	c.eachType(func(f *file, spec *ast.TypeSpec, named *types.Named) {
		if _, ok := named.Underlying().(*types.Struct); !ok || f.test || c.pkg.support() {
			return
		}
		name := c.pkg.path + "." + spec.Name.Name
		switch fields := countFields(spec); {
		case named.NumMethods() > maxMethods:
			c.excess(spec.Name, name, "%d methods, at most %d: give its parts types of their own", named.NumMethods(), maxMethods)
		case fields <= maxFields:
		case c.tree.record(name):
			if named.NumMethods() > maxFields {
				c.report(spec.Name, "%d methods: it is more than a record", named.NumMethods())
			}
		default:
			c.excess(spec.Name, name, "%d fields, at most %d: give those that are used together a type of their own", fields, maxFields)
		}
	})
}

// record reports whether the name is of a plain record, and notes that it is asked for.
func (t *tree) record(name string) bool {
	for _, r := range t.records {
		if r.name == name {
			t.large[r] = true
			return true
		}
	}
	return false
}

// countFields counts the fields of a struct and of the unnamed structs in it.
func countFields(spec *ast.TypeSpec) int {
	n := 0
	ast.Inspect(spec.Type, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncType, *ast.InterfaceType:
			return false
		case *ast.StructType:
			for _, f := range node.Fields.List {
				if _, nested := f.Type.(*ast.StructType); !nested {
					n += max(1, len(f.Names))
				}
			}
		}
		return true
	})
	return n
}

// eachType calls do with every named type that the package declares at its top level.
func (c *check) eachType(do func(*file, *ast.TypeSpec, *types.Named)) {
	for _, f := range c.pkg.files {
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					if obj := c.tree.info.Defs[s.Name]; obj != nil {
						if named, ok := obj.Type().(*types.Named); ok && !s.Assign.IsValid() {
							do(f, s, named)
						}
					}
				}
			}
		}
	}
}

// checkPackage counts what is shipped: a suite for tests has as many lines as
// there are promises to test.
func checkPackage(c *check) {
	if c.pkg.support() {
		return
	}
	lines, first := 0, (*file)(nil)
	for _, f := range c.shipped() {
		if !ast.IsGenerated(f.syntax) {
			lines += f.lines
			if first == nil || f.name < first.name {
				first = f
			}
		}
	}
	if lines > maxPackage {
		c.excess(first.syntax.Name, c.pkg.path, "%d lines, at most %d: split the package by what owns which state", lines, maxPackage)
	}
}

func checkSize(c *check) {
	for _, f := range c.pkg.files {
		most := maxFile
		if f.test || c.pkg.support() {
			most = maxTestFile
		}
		if f.lines > most && !ast.IsGenerated(f.syntax) {
			c.excess(f.syntax.Name, f.name, "%d lines, at most %d: split it by topic", f.lines, most)
		}
	}
}

// sizeSamples are files at the limits, and one line beyond them.
func sizeSamples() map[string]string {
	return map[string]string{
		"a/full.go":      "package a\n" + strings.Repeat("\n", maxFile-1),
		"a/over.go":      "package a // want\n" + strings.Repeat("\n", maxFile),
		"a/made.go":      "// Code generated by hand; DO NOT EDIT.\n\npackage a\n" + strings.Repeat("\n", maxFile),
		"a/full_test.go": "package a\n" + strings.Repeat("\n", maxTestFile-1),
		"a/over_test.go": "package a // want\n" + strings.Repeat("\n", maxTestFile),
	}
}

// packageSamples are packages at the limit, and one line beyond it.
func packageSamples() map[string]string {
	return map[string]string{
		"full/a.go":      "package full\n" + strings.Repeat("\n", maxPackage-2),
		"full/b.go":      "package full\n",
		"full/b_test.go": "package full\n",
		"over/a.go":      "package over // want\n" + strings.Repeat("\n", maxPackage-1),
		"over/b.go":      "package over\n",
	}
}
