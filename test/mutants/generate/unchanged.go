package generate

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// What is here tells changes that keep every promise by what the code around them says, so that they are no sites. A
// reader can check each kind by its sentence. Such a change takes its number all the same, so that the names of others
// do not depend on what is known of it.

// equalizes reports whether what a comparison of two values decides about is no more than that one becomes the other:
// `if a > b { b = a }`. Where they are equal that changes nothing, whichever way it goes. An element of a map does only
// if it is known to be there, else it would be.
func (f *function) equalizes(x, y ast.Expr, within []ast.Node) bool {
	at := len(within) - 1
	for at > 0 && isCondition(within[at]) {
		at--
	}
	s, is := within[at].(*ast.IfStmt)
	if !is || s.Else != nil || s.Cond == nil || x.Pos() < s.Cond.Pos() || y.End() > s.Cond.End() || callsBeside(s.Cond, x, y) {
		return false
	}
	one, two := f.knownAs(x, s, within[:at]), f.knownAs(y, s, within[:at])
	equal := false
	for _, b := range s.Body.List {
		if f.counts(b) {
			continue
		}
		a, is := b.(*ast.AssignStmt)
		if !is || equal || a.Tok != token.ASSIGN || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
			return false
		}
		to, from := f.of(a.Lhs[0]), f.of(a.Rhs[0])
		if !slices.Contains(one, to) {
			one, two = two, one
		}
		equal = slices.Contains(one, to) && slices.Contains(two, from) && !(f.isOfMap(a.Lhs[0]) && to == one[0])
		if !equal {
			return false
		}
	}
	return equal
}

// isCondition reports whether a node is a part of a condition that joins others.
func isCondition(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ParenExpr:
		return true
	case *ast.UnaryExpr:
		return n.Op == token.NOT
	case *ast.BinaryExpr:
		return n.Op == token.LAND || n.Op == token.LOR
	}
	return false
}

// callsBeside reports whether a condition calls something beside the comparison of two values and what is in them.
func callsBeside(condition ast.Expr, x, y ast.Expr) bool {
	from, to := min(x.Pos(), y.Pos()), max(x.End(), y.End())
	found := false
	ast.Inspect(condition, func(n ast.Node) bool {
		c, is := n.(*ast.CallExpr)
		if is && (c.End() <= from || c.Pos() >= to) {
			found = true
		}
		return true
	})
	return found
}

// knownAs are the texts of a value where an if begins: its own, and that of an element of a map that an if around it
// has found under its name, if nothing is done in between.
func (f *function) knownAs(e ast.Expr, s *ast.IfStmt, within []ast.Node) []string {
	all := []string{f.of(e)}
	id, is := e.(*ast.Ident)
	if !is || len(within) < 2 {
		return all
	}
	block, is := within[len(within)-1].(*ast.BlockStmt)
	outer, also := within[len(within)-2].(*ast.IfStmt)
	if !is || !also || outer.Body != block || block.List[0] != s {
		return all
	}
	a, is := outer.Init.(*ast.AssignStmt)
	if is && len(a.Lhs) == 2 && len(a.Rhs) == 1 && f.of(a.Lhs[0]) == id.Name && f.of(a.Lhs[1]) == f.of(outer.Cond) {
		all = append(all, f.of(a.Rhs[0]))
	}
	return all
}

func (f *function) isOfMap(e ast.Expr) bool {
	x, is := e.(*ast.IndexExpr)
	if !is {
		return false
	}
	_, is = f.typeOf(x.X).Underlying().(*types.Map)
	return is
}

// most are the names of constants that bound numbers.
var most = regexp.MustCompile(`^[mM]ax[A-Z]`)

// beyond reports whether an expression is a constant that bounds what is counted, and that nobody has counted up to:
// 2^32 or more.
func (f *function) beyond(e ast.Expr) bool {
	var id *ast.Ident
	switch e := e.(type) {
	case *ast.Ident:
		id = e
	case *ast.SelectorExpr:
		id = e.Sel
	}
	if id == nil || !most.MatchString(id.Name) || f.isTime(e) {
		return false
	}
	return f.isConstant(e, 1<<32)
}

// isConstant reports whether an expression is a constant of so much or more.
func (f *function) isConstant(e ast.Expr, least uint64) bool {
	v := f.pkg.info.Types[e].Value
	return v != nil && v.Kind() == constant.Int && constant.Compare(v, token.GEQ, constant.MakeUint64(least))
}

// never reports whether a condition is one that no run meets: a count above a bound that nobody has counted up to.
func (f *function) never(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return f.never(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.GTR, token.GEQ:
			return f.beyond(e.Y)
		case token.LAND:
			return f.never(e.X) || f.never(e.Y)
		case token.LOR:
			return f.never(e.X) && f.never(e.Y)
		}
	}
	return false
}

// goesUnseen reports whether of two conditions that are joined one can go: no run meets them, with or without it.
func (f *function) goesUnseen(b *ast.BinaryExpr, gone, left ast.Expr) bool {
	return f.never(b) && f.never(left) || b.Op == token.LOR && f.never(gone)
}

// isRoom reports whether a comparison asks how long a list or a table may become that a process keeps, of 256 or more:
// one more or less is bounded as well. How much a message may have, two sides have to agree on.
func (f *function) isRoom(n *ast.BinaryExpr) bool {
	if !isLength(n.X) || !f.isConstant(n.Y, 256) {
		return false
	}
	s, is := n.X.(*ast.CallExpr).Args[0].(*ast.SelectorExpr)
	return is && f.natureOf(s.X) == neither
}

// isRefusal reports whether a result is one of an operation that had no effect, and will have none: no record says that
// it had, so that it does not rest on any.
func (f *function) isRefusal(e ast.Expr) bool {
	c, is := e.(*ast.CompositeLit)
	if !is {
		return false
	}
	for _, e := range c.Elts {
		kv, is := e.(*ast.KeyValueExpr)
		if is && f.of(kv.Key) == "Status" {
			return slices.Contains([]string{"register.Unavailable", "register.Unsupported", "register.Invalid"}, f.of(kv.Value))
		}
	}
	return false
}

// doTheSame reports whether two cases differ in no more than what they count.
func (f *function) doTheSame(a, b []ast.Stmt) bool {
	text := func(list []ast.Stmt) (all []string) {
		for _, s := range list {
			if _, is := s.(*ast.ReturnStmt); is || !f.counts(s) {
				all = append(all, strings.Join(strings.Fields(f.of(s)), " "))
			}
		}
		return all
	}
	return slices.Equal(text(a), text(b))
}
