package generate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// isForPeople reports whether all that a change replaces is read by nothing but people.
func (f *function) isForPeople(c change) bool {
	if f.people == nil {
		f.people = f.forPeople(f.decl)
	}
	return !slices.ContainsFunc(c.pieces, func(p piece) bool { return !isWithin(f.people, p) })
}

func isWithin(all []piece, p piece) bool {
	return slices.ContainsFunc(all, func(s piece) bool { return s.from <= p.from && p.to <= s.to })
}

// news is the type of what people are told of a decision.
const news = "Move"

// forPeople are the parts of code that nothing but people reads the outcome of: what they are told of a decision, the
// conditions of what only counts a path, and what a field gets that nothing else reads. How many round trips an
// operation took, and whether that was the fast way, is not among it: experiments see it.
func (f *function) forPeople(code ast.Node) []piece {
	all := []piece{}
	add := func(n ast.Node) { all = append(all, f.instead(n, "")) }
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if t := f.named(n); t != nil && t.Obj().Name() == news {
				for _, e := range n.Elts {
					add(e)
				}
			}
		case *ast.IfStmt:
			if f.onlyCounts(n) {
				add(n)
			}
		case *ast.AssignStmt:
			read := func(e ast.Expr) bool { return !f.pkg.unread[f.fieldOf(e)] }
			if n.Tok == token.ASSIGN && !slices.ContainsFunc(n.Lhs, read) {
				add(n)
			}
		}
		return true
	})
	return all
}

// onlyCounts reports whether all that a statement does is to count paths, and its conditions call nothing that may do more.
func (f *function) onlyCounts(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IfStmt:
		return s.Init == nil && !calls(s.Cond) && f.onlyCounts(s.Body) && (s.Else == nil || f.onlyCounts(s.Else))
	case *ast.BlockStmt:
		return !slices.ContainsFunc(s.List, func(s ast.Stmt) bool { return !f.onlyCounts(s) })
	case *ast.ExprStmt:
		return f.counts(s)
	}
	return false
}

// calls reports whether an expression calls anything but what compares or measures.
func calls(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		c, is := n.(*ast.CallExpr)
		found = found || is && !slices.Contains([]string{"len", "Less", "Equal", "Compare", "Kind"}, calledName(c))
		return true
	})
	return found
}

// fieldOf is the field that an expression selects, or nil.
func (f *function) fieldOf(e ast.Expr) *types.Var {
	s, is := e.(*ast.SelectorExpr)
	if !is {
		return nil
	}
	v, is := f.pkg.info.Uses[s.Sel].(*types.Var)
	if !is || !v.IsField() {
		return nil
	}
	return v
}

// unreadFields are the package's own fields that no function reads but those for people. To set one, or to count it
// up, is not to read it; to compare a struct is to read all of its fields.
func (p *pkg) unreadFields() map[*types.Var]bool {
	read, set, mutated := map[*types.Var]bool{}, map[*types.Var]bool{}, map[*ast.FuncDecl]bool{}
	for _, f := range p.functions {
		mutated[f.decl] = true
	}
	for _, s := range p.files {
		f := &function{source: s}
		for _, d := range s.tree.Decls {
			if decl, is := d.(*ast.FuncDecl); is && !mutated[decl] && p.served[decl] {
				continue
			}
			people := f.forPeople(d)
			target := map[*ast.Ident]bool{}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, l := range n.Lhs {
						if s, is := l.(*ast.SelectorExpr); is {
							target[s.Sel] = true
						}
					}
				case *ast.IncDecStmt:
					if s, is := n.X.(*ast.SelectorExpr); is {
						target[s.Sel] = true
					}
				case *ast.KeyValueExpr:
					if id, is := n.Key.(*ast.Ident); is {
						target[id] = true
					}
				case *ast.BinaryExpr:
					if n.Op == token.EQL || n.Op == token.NEQ {
						readAll(f.typeOf(n.X), read)
					}
				case *ast.MapType:
					readAll(f.typeOf(n.Key), read)
				case *ast.CallExpr:
					for _, a := range n.Args {
						if s, is := f.typeOf(a).Underlying().(*types.Slice); is {
							readAll(s.Elem(), read)
						}
					}
				case *ast.Ident:
					v, is := p.info.Uses[n].(*types.Var)
					if !is || !v.IsField() {
						break
					}
					if target[n] {
						set[v] = true
					} else if !isWithin(people, f.instead(n, "")) {
						read[v] = true
					}
				}
				return true
			})
		}
	}
	unread := map[*types.Var]bool{}
	for v := range set { // what is found depends on no order
		if !read[v] && !v.Exported() && !v.Embedded() && v.Pkg().Path() == p.path {
			unread[v] = true
		}
	}
	return unread
}

// readAll notes all fields of a struct as read, and of those in it.
func readAll(t types.Type, read map[*types.Var]bool) {
	if t == nil {
		return
	}
	s, is := t.Underlying().(*types.Struct)
	if !is {
		return
	}
	for v := range s.Fields() {
		read[v] = true
		readAll(v.Type(), read)
	}
}
