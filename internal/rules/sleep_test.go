package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// pauses are the functions of tests that may let time pass.
var pauses = []struct{ name, why string }{
	{"integration.elapse", "the built programs measure this time themselves, by the clock of the kernel"},
	{"runner/runnertest.testAgentKilledAnytime", "the moment of a kill is what the test tries out"},
}

// checkSleep refuses to let time pass where an event could be waited for: by
// time.Sleep anywhere, and in the support of tests by taking from a timer. Allowed
// are
//
//   - what runs in a synctest bubble, whose clock moves only so;
//   - a ticker within a loop, which looks again and again for what it waits for;
//   - a timer as a case of a select that fails the test, or returns an error,
//     beside a case for the event;
//   - the functions that pauses names.
func checkSleep(c *check) {
	if c.tree.virtual == nil {
		c.tree.virtual, c.tree.makers = virtualFuncs(c.tree)
	}
	for _, f := range c.pkg.files {
		for _, decl := range f.syntax.Decls {
			tests, literals := f.test || c.pkg.support(), false
			if fn, ok := decl.(*ast.FuncDecl); ok && tests {
				name := funcName(c.tree, fn)
				literals = c.tree.makers[name]
				if c.tree.virtual[name] && !literals || c.mayPause(name) {
					continue
				}
			}
			c.sleeps(decl, literals)
			if tests {
				c.pauses(decl, literals)
			}
		}
	}
}

// mayPause reports whether the function is one of the pauses, and notes that it is there.
func (c *check) mayPause(name string) bool {
	for _, p := range c.tree.pauses {
		if p == name {
			c.tree.pausing[name] = true
			return true
		}
	}
	return false
}

// sleeps reports each time.Sleep, but for those in function literals if they are of
// a bubble.
func (c *check) sleeps(decl ast.Decl, literals bool) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok && literals {
			return false
		}
		if id, ok := n.(*ast.Ident); ok && c.name(id) == "time.Sleep" {
			c.report(id, "wait for the event, or for a timer together with a context")
		}
		return true
	})
}

// pauses reports in the same way what is taken from a timer.
func (c *check) pauses(decl ast.Decl, literals bool) {
	var around []ast.Node
	ast.Inspect(decl, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok && literals {
			return false
		}
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		if recv, ok := n.(*ast.UnaryExpr); ok && recv.Op == token.ARROW && c.ofTimer(recv.X) {
			if !c.polls(recv.X, around) && !c.guards(recv, around) {
				c.report(recv, "a pause: wait for the event, or look for it at each tick")
			}
		}
		around = append(around, n)
		return true
	})
}

// ofTimer reports whether times are received from the expression.
func (c *check) ofTimer(e ast.Expr) bool {
	ch, ok := c.tree.info.TypeOf(e).Underlying().(*types.Chan)
	return ok && ch.Elem().String() == "time.Time"
}

// polls reports whether e is the channel of a ticker, in a loop.
func (c *check) polls(e ast.Expr, around []ast.Node) bool {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok || strings.TrimPrefix(c.tree.info.TypeOf(sel.X).String(), "*") != "time.Ticker" {
		return false
	}
	return slices.ContainsFunc(around, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		}
		return false
	})
}

// guards reports whether the receive bounds the wait for an event.
func (c *check) guards(recv ast.Expr, around []ast.Node) bool {
	for i := len(around) - 1; i >= 2; i-- {
		clause, ok := around[i].(*ast.CommClause)
		if !ok || clause.Comm == nil || clause.Comm.Pos() > recv.Pos() || clause.Comm.End() < recv.End() {
			continue
		}
		cases := around[i-1].(*ast.BlockStmt).List
		return len(cases) > 1 && slices.ContainsFunc(clause.Body, c.fails)
	}
	return false
}

// fails reports whether the statement fails a test, or returns something.
func (c *check) fails(stmt ast.Stmt) bool {
	switch s := stmt.(type) {
	case *ast.ReturnStmt:
		return len(s.Results) > 0
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			return fun.Name == "panic"
		case *ast.SelectorExpr:
			return slices.Contains([]string{"testing.*.Fatal", "testing.*.Fatalf", "testing.*.Error", "testing.*.Errorf"}, c.name(fun.Sel))
		}
	}
	return false
}

// virtualFuncs are the functions of tests that run in the time of a bubble: the
// makers, which make one or call a maker, and those that are used by no others. A
// method without a use is called through an interface; for it the uses of its type
// count. Within a maker, time is virtual in the function literals.
func virtualFuncs(t *tree) (virtual, makers map[string]bool) {
	uses := make(map[string][]string) // of a function or type: where it is used
	makes := make(map[string]bool)    // bubbles
	owner := make(map[string]string)  // of a method: its type
	for _, p := range t.packages {
		for _, f := range p.files {
			if !f.test && !p.support() {
				continue
			}
			for _, decl := range f.syntax.Decls {
				fn, _ := decl.(*ast.FuncDecl)
				at := "" // a declaration that is no function
				if fn != nil {
					at = funcName(t, fn)
					if fn.Recv != nil {
						owner[at] = p.path + "." + receiver(fn)
					}
				}
				ast.Inspect(decl, func(n ast.Node) bool {
					id, ok := n.(*ast.Ident)
					if !ok || fn != nil && fn.Recv != nil && within(id, fn.Recv) {
						return true
					}
					if name := used(t, id); name == "testing/synctest.Test" {
						makes[at] = true
					} else if name != "" && (fn != nil || !isType(t, id)) {
						uses[name] = append(uses[name], at)
					}
					return true
				})
			}
		}
	}
	return settle(uses, makes, owner)
}

// settle follows the uses until nothing changes.
func settle(uses map[string][]string, makes map[string]bool, owner map[string]string) (virtual, makers map[string]bool) {
	for changed := true; changed; {
		changed = false
		for name, places := range uses {
			if !makes[name] {
				continue
			}
			for _, at := range places {
				if at != "" && !makes[at] {
					makes[at], changed = true, true
				}
			}
		}
	}
	virtual = make(map[string]bool)
	for name := range uses {
		virtual[name] = true
	}
	for name := range owner {
		virtual[name] = true
	}
	for name := range makes {
		virtual[name] = true
	}
	for changed := true; changed; {
		changed = false
		for name := range virtual {
			places := uses[name]
			if len(places) == 0 {
				places = uses[owner[name]]
			}
			kept := len(places) > 0 && !slices.ContainsFunc(places, func(at string) bool {
				return !virtual[at] && (owner[at] == "" || owner[at] != owner[name] && owner[at] != name)
			})
			if !makes[name] && !kept {
				delete(virtual, name)
				changed = true
			}
		}
	}
	return virtual, makes
}

func within(n, outer ast.Node) bool { return outer.Pos() <= n.Pos() && n.End() <= outer.End() }

// funcName is the name of a function as its users know it.
func funcName(t *tree, fn *ast.FuncDecl) string {
	obj, ok := t.info.Defs[fn.Name].(*types.Func)
	if !ok {
		return ""
	}
	return shortName(obj)
}

// shortName is "(agent.world).pass", wherever the method is used.
func shortName(fn *types.Func) string {
	return strings.NewReplacer("*", "", module+"/", "").Replace(fn.Origin().FullName())
}

// used is the name of the function or type that an identifier stands for.
func used(t *tree, id *ast.Ident) string {
	switch obj := t.info.Uses[id].(type) {
	case *types.Func:
		return shortName(obj)
	case *types.TypeName:
		if obj.Pkg() != nil {
			return strings.TrimPrefix(obj.Pkg().Path(), module+"/") + "." + obj.Name()
		}
	}
	return ""
}

func isType(t *tree, id *ast.Ident) bool {
	_, ok := t.info.Uses[id].(*types.TypeName)
	return ok
}
