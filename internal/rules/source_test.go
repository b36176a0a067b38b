package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"
)

// pure are the packages that are told the time.
var pure = []string{"protocol/...", "container", "alerts"}

// selfEvident are the methods whose contract the standard library states.
var selfEvident = []string{
	"AppendText", "As", "Error", "Format", "Is", "IsZero", "Len", "Less", "LogValue", "MarshalBinary", "MarshalJSON", "MarshalText", "MarshalYAML",
	"Scan", "String", "Swap", "UnmarshalBinary", "UnmarshalJSON", "UnmarshalText", "UnmarshalYAML", "Unwrap", "Value",
}

func checkComment(c *check) {
	want := "Package " + c.pkg.name + " "
	var first *file
	for _, f := range c.pkg.files {
		if f.test && !allTests(c.pkg) {
			continue
		}
		if first == nil {
			first = f
		}
		if f.syntax.Doc == nil {
			continue
		}
		text := f.syntax.Doc.Text()
		if c.pkg.name == "main" && len(strings.Fields(text)) > 1 || strings.HasPrefix(text, want) {
			return
		}
	}
	c.report(first.syntax.Name, "package %s has no comment that begins with %q", c.pkg.path, want)
}

func allTests(p *pkg) bool {
	return !slices.ContainsFunc(p.files, func(f *file) bool { return !f.test })
}

func checkDoc(c *check) {
	for _, f := range c.shipped() {
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				checkFuncDoc(c, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					checkSpecDoc(c, d, spec)
				}
			}
		}
	}
}

func checkFuncDoc(c *check, d *ast.FuncDecl) {
	if !d.Name.IsExported() || d.Doc != nil {
		return
	}
	if d.Recv != nil && (slices.Contains(selfEvident, d.Name.Name) || !ast.IsExported(receiver(d))) {
		return
	}
	c.report(d.Name, "%s is exported and has no comment", d.Name.Name)
}

// receiver is the name of the type that d is a method of.
func receiver(d *ast.FuncDecl) string {
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// checkSpecDoc accepts a comment above the name, beside it, or above its group:
// a group of constants is often best explained once.
func checkSpecDoc(c *check, d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) && s.Comment == nil {
			c.report(s.Name, "%s is exported and has no comment", s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				c.report(name, "%s is exported and has no comment", name.Name)
			}
		}
	}
}

func checkInit(c *check) {
	for _, f := range c.pkg.files {
		for _, decl := range f.syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
				c.report(d.Name, "init runs before anybody asked: wire it in the program")
			}
		}
	}
}

// forPrograms are the functions and variables by which a program meets its
// caller.
var forPrograms = []string{
	"log.Fatal", "log.Fatalf", "log.Fatalln", "log.Panic", "log.Panicf", "log.Panicln",
	"log.*.Fatal", "log.*.Fatalf", "log.*.Fatalln", "log.*.Panic", "log.*.Panicf", "log.*.Panicln",
	"os.Args", "os.Clearenv", "os.Environ", "os.Exit", "os.ExpandEnv", "os.Getenv", "os.LookupEnv", "os.Setenv", "os.Unsetenv",
}

func checkPrograms(c *check) {
	if c.pkg.program() || c.pkg.support() {
		return
	}
	for _, f := range c.shipped() {
		if f.neverReleased() {
			continue
		}
		for _, spec := range f.syntax.Imports {
			if importPath(spec) == "flag" {
				c.report(spec, "only programs read flags")
			}
		}
		c.uses(f, func(id *ast.Ident, name string) {
			if slices.Contains(forPrograms, name) {
				c.report(id, "%s is for programs: take it as an argument, return an error", name)
			}
		})
	}
}

// neverReleased reports whether the file is for the programs that the suites
// kill and whose clock they set. What these are told comes by the environment,
// as it must reach the programs that they start.
func (f *file) neverReleased() bool {
	for _, group := range f.syntax.Comments {
		if group.Pos() > f.syntax.Package {
			break
		}
		for _, comment := range group.List {
			if comment.Text == "//go:build hostlertest" {
				return true
			}
		}
	}
	return false
}

func checkTesting(c *check) {
	if c.pkg.support() {
		return
	}
	for _, f := range c.shipped() {
		for _, spec := range f.syntax.Imports {
			p := importPath(spec)
			_, ours := local(p)
			if match("testing/...", p) || ours && strings.HasSuffix(path.Base(p), "test") {
				c.report(spec, "shipped code may not import %s", p)
			}
		}
	}
}

func checkSkip(c *check) {
	for _, f := range c.pkg.files {
		c.uses(f, func(id *ast.Ident, name string) {
			switch name {
			case "testing.*.Skip", "testing.*.Skipf", "testing.*.SkipNow":
				c.report(id, "a test that cannot run must fail and say what it needs")
			}
		})
	}
}

func checkShell(c *check) {
	if c.pkg.support() {
		return
	}
	for _, f := range c.shipped() {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			var list []ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				list = n.Args
			case *ast.CompositeLit:
				list = n.Elts
			}
			for i := 1; i < len(list); i++ {
				if shell := path.Base(text(list[i-1])); (shell == "sh" || shell == "bash") && text(list[i]) == "-c" {
					c.report(list[i-1], "run the program itself, with a list of arguments")
				}
			}
			return true
		})
	}
}

// text is the value of a string literal.
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

// clocks are the functions that look at a clock.
var clocks = []string{"time.After", "time.AfterFunc", "time.NewTicker", "time.NewTimer", "time.Now", "time.Since", "time.Sleep", "time.Tick", "time.Until"}

func checkClock(c *check) {
	if !matchAny(pure, c.pkg.path) || c.pkg.support() {
		return
	}
	for _, f := range c.shipped() {
		c.uses(f, func(id *ast.Ident, name string) {
			if slices.Contains(clocks, name) {
				c.report(id, "%s: take the time as an argument", name)
			}
		})
	}
}

// shipped are the files that are not tests.
func (c *check) shipped() []*file {
	return slices.DeleteFunc(slices.Clone(c.pkg.files), func(f *file) bool { return f.test })
}

// uses calls do with each identifier of f that stands for something of another
// package, by the path of that package and its own name: "time.Sleep", and
// "log.*.Fatal" for the method of any type there.
func (c *check) uses(f *file, do func(id *ast.Ident, name string)) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if name := c.name(id); name != "" {
				do(id, name)
			}
		}
		return true
	})
}

func (c *check) name(id *ast.Ident) string {
	obj := c.tree.info.Uses[id]
	if obj == nil || obj.Pkg() == nil {
		return ""
	}
	if _, ok := obj.(*types.PkgName); ok {
		return ""
	}
	if fn, ok := obj.(*types.Func); ok && fn.Signature().Recv() != nil {
		return obj.Pkg().Path() + ".*." + obj.Name()
	}
	return obj.Pkg().Path() + "." + obj.Name()
}
