package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// checkVariables is the rule on package variables that the package comment
// states.
func checkVariables(c *check) {
	for _, f := range c.shipped() {
		for _, decl := range f.syntax.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.VAR {
				checkDeclared(c, d)
			}
		}
	}
	for _, f := range c.pkg.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			checkWrite(c, n)
			return true
		})
	}
}

// checkDeclared refuses the types that exist to be changed.
func checkDeclared(c *check, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			obj := c.tree.info.Defs[name]
			if name.Name == "_" || obj == nil {
				continue
			}
			typ := obj.Type()
			if p, ok := typ.Underlying().(*types.Pointer); ok {
				typ = p.Elem()
			}
			if _, ok := typ.Underlying().(*types.Chan); ok {
				c.report(name, "package variable %s is a channel", name.Name)
			}
			if named, ok := types.Unalias(typ).(*types.Named); ok && named.Obj().Pkg() != nil && match("sync/...", named.Obj().Pkg().Path()) {
				c.report(name, "package variable %s is of a type that exists to be changed", name.Name)
			}
		}
	}
}

// checkWrite reports a node that writes a package variable.
func checkWrite(c *check, n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, lhs := range n.Lhs {
			c.written(lhs, "is assigned")
		}
	case *ast.IncDecStmt:
		c.written(n.X, "is assigned")
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			c.written(n.Key, "is assigned")
			c.written(n.Value, "is assigned")
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			c.written(n.X, "has its address taken")
		}
	case *ast.CallExpr:
		checkCall(c, n)
	}
}

// checkCall reports the calls that write what they are called on or with.
func checkCall(c *check, call *ast.CallExpr) {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		if b, ok := c.tree.info.Uses[fun].(*types.Builtin); ok && len(call.Args) > 0 {
			switch b.Name() {
			case "clear", "copy", "delete":
				c.written(call.Args[0], "is changed by "+b.Name())
			}
		}
	case *ast.SelectorExpr:
		sel := c.tree.info.Selections[fun]
		if sel == nil || sel.Kind() != types.MethodVal {
			return
		}
		recv := sel.Obj().(*types.Func).Signature().Recv()
		if _, byPointer := recv.Type().(*types.Pointer); !byPointer {
			return
		}
		_, viaPointer := sel.Recv().Underlying().(*types.Pointer)
		if ours := sel.Obj().Pkg() != nil && strings.HasPrefix(sel.Obj().Pkg().Path(), module); ours || !viaPointer {
			c.written(fun.X, "is handed to "+fun.Sel.Name+" by its address")
		}
	}
}

// written reports the package variable that the expression is, or is part of.
func (c *check) written(e ast.Expr, how string) {
	id := root(c, e)
	if id == nil {
		return
	}
	v, ok := c.tree.info.Uses[id].(*types.Var)
	if !ok || v.IsField() || v.Pkg() == nil || v.Pkg().Scope().Lookup(v.Name()) != v {
		return
	}
	if at := c.tree.fset.Position(v.Pos()); strings.HasSuffix(at.Filename, "_test.go") {
		return
	}
	c.report(e, "package variable %s %s", v.Name(), how)
}

// root is the identifier that an expression reaches its storage through: v of
// v.f[i].g, p.V of p.V.f.
func root(c *check, e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok {
				if _, qualified := c.tree.info.Uses[id].(*types.PkgName); qualified {
					return x.Sel
				}
			}
			e = x.X
		default:
			return nil
		}
	}
}
