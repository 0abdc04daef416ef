package generate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// vocabulary are the names of numbers that quorums and thresholds are made of.
var vocabulary = regexp.MustCompile(`(?i)(majority|quorum|faults?|enough|tolerance|count|backups|witnesses|needs?|want|` +
	`size|votes|members|fast|replies)$`)

// speaks reports whether an expression is a number of a quorum's.
func (f *function) speaks(e ast.Expr) bool {
	if !isInteger(f.typeOf(e)) {
		return false
	}
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && vocabulary.MatchString(id.Name) {
			v, is := f.pkg.info.Uses[id].(*types.Var)
			found = found || !(is && !v.IsField() && id.Name == "size") // a local of that name counts bytes
		}
		return true
	})
	return found
}

func isInteger(t types.Type) bool {
	if t == nil {
		return false
	}
	b, is := t.Underlying().(*types.Basic)
	return is && b.Info()&types.IsInteger != 0
}

func isLiteral(e ast.Expr) bool {
	_, is := e.(*ast.BasicLit)
	return is
}

// quorums asks one more or one less of a number of members, or another kind of quorum.
func quorums(f *function) (all []change) {
	shift := func(e ast.Expr, statement ast.Stmt) {
		text := f.of(e)
		if _, simple := e.(*ast.BinaryExpr); simple {
			text = "(" + text + ")"
		}
		for _, by := range []string{"-1", "+1"} {
			all = append(all, change{pieces: []piece{f.instead(e, text+by)}, at: statement.Pos()})
		}
	}
	f.walk(func(n ast.Node, within []ast.Node, statement ast.Stmt) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if !isComparison(n.Op) || isLiteral(n.X) || isLiteral(n.Y) || f.isBytes(n.X) || f.isBytes(n.Y) {
				return
			}
			if f.speaks(n.Y) {
				shift(n.Y, statement)
			} else if f.speaks(n.X) && isInteger(f.typeOf(n.Y)) {
				shift(n.X, statement)
			}
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is && vocabulary.MatchString(key.Name) && isInteger(f.typeOf(n.Value)) &&
				!isLiteral(n.Value) && !f.isBytes(n.Value) {
				shift(n.Value, statement)
			}
		case *ast.ReturnStmt:
			if len(n.Results) == 1 && isInteger(f.typeOf(n.Results[0])) && !isLiteral(n.Results[0]) &&
				(vocabulary.MatchString(f.decl.Name.Name) || f.speaks(n.Results[0])) {
				shift(n.Results[0], statement)
			}
		case *ast.CallExpr:
			all = append(all, f.otherQuorum(n, statement)...)
		}
	})
	return all
}

// otherQuorum has answers that are counted be enough with one less, and another quorum be asked for.
func (f *function) otherQuorum(c *ast.CallExpr, statement ast.Stmt) (all []change) {
	s, is := c.Fun.(*ast.SelectorExpr)
	if n := f.tally(c); !is || n == nil {
		return nil
	}
	t, known, also := f.of(s.X), f.of(c.Args[0]), f.of(c.Args[1])
	less := 1
	if also != "0" {
		less = 2
		all = append(all, change{pieces: []piece{f.instead(c.Args[1], "0")}, at: statement.Pos()})
	}
	instead := map[string]string{"Quorum": "QuorumBefore", "QuorumBefore": "Quorum", "Fast": "Quorum", "Meets": "Quorum"}
	all = append(all, change{pieces: []piece{f.instead(s.Sel, instead[s.Sel.Name])}, at: statement.Pos()})
	if s.Sel.Name == "Quorum" {
		fewer := fmt.Sprintf("(%s.Count(%s)+%d >= %s.View().Majority())", t, known, less, known)
		all = append(all, change{pieces: []piece{f.instead(c, fewer)}, at: statement.Pos()})
	}
	return all
}

// tally is the type of what a call asks for a quorum, nil if it does not.
func (f *function) tally(c *ast.CallExpr) *types.Named {
	s, is := c.Fun.(*ast.SelectorExpr)
	if !is || len(c.Args) != 2 || !slices.Contains([]string{"Quorum", "QuorumBefore", "Fast", "Meets"}, s.Sel.Name) {
		return nil
	}
	if n := f.named(s.X); n != nil && n.Obj().Name() == "Tally" {
		return n
	}
	return nil
}

func isComparison(t token.Token) bool {
	switch t {
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
		return true
	}
	return false
}

// comparisons has equal count as less, or not. A timer that is one nanosecond off, a session's age that is one
// millisecond off, and a limit of bytes that is one byte off, are left out: nobody could tell. So is a length that is at
// least none, not more: a guard or an operand that does not count any more, as the operators of these names have it.
func comparisons(f *function) (all []change) {
	other := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	f.walk(func(n ast.Node, within []ast.Node, statement ast.Stmt) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if op, is := other[n.Op]; is && !f.isTime(n.X) && !f.isTime(n.Y) && !f.isBytes(n.X) && !f.isBytes(n.Y) &&
				!(f.of(n.Y) == "0" && n.Op == token.GTR && isLength(n.X)) {
				at := f.offset(n.OpPos)
				all = append(all, change{
					pieces: []piece{{at, at + len(n.Op.String()), op}}, at: statement.Pos(),
					keeps: f.equalizes(n.X, n.Y, within) || f.beyond(n.Y) || f.isRoom(n),
				})
			}
		case *ast.CallExpr:
			if s, is := n.Fun.(*ast.SelectorExpr); is && len(n.Args) == 1 && strings.EqualFold(s.Sel.Name, "less") {
				text := fmt.Sprintf("%s.%s(%s)", f.operand(n.Args[0]), s.Sel.Name, f.of(s.X))
				c := change{at: statement.Pos(), keeps: f.equalizes(s.X, n.Args[0], within)}
				if not, is := within[len(within)-1].(*ast.UnaryExpr); is && not.Op == token.NOT {
					c.pieces = []piece{f.instead(not, text)}
				} else {
					c.pieces = []piece{f.instead(n, "!"+text)}
				}
				all = append(all, c)
			}
		}
	})
	return all
}

func (f *function) isTime(e ast.Expr) bool {
	if s, is := e.(*ast.SelectorExpr); is && s.Sel.Name == "SeenAt" {
		return true
	}
	n := f.named(e)
	return n != nil && (n.Obj().Name() == "Instant" || n.Obj().Name() == "Duration")
}

// isLength reports whether an expression is the length of something.
func isLength(e ast.Expr) bool {
	c, is := e.(*ast.CallExpr)
	return is && calledName(c) == "len"
}

// isBytes reports whether an expression counts bytes.
func (f *function) isBytes(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			found = found || strings.Contains(strings.ToLower(n.Name), "bytes")
		case *ast.CallExpr:
			if calledName(n) == "len" && len(n.Args) == 1 {
				switch t := f.typeOf(n.Args[0]).Underlying().(type) {
				case *types.Slice:
					found = found || types.Identical(t.Elem(), types.Typ[types.Byte])
				case *types.Basic:
					found = true
				}
			}
		}
		return true
	})
	return found
}

// components compares one component of what is ordered by several.
func components(f *function) (all []change) {
	f.walk(func(n ast.Node, within []ast.Node, statement ast.Stmt) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				for _, field := range f.componentsOf(n.X) {
					all = append(all, change{pieces: []piece{
						f.instead(n, fmt.Sprintf("%s.%s %s %s.%s", f.of(n.X), field, n.Op, f.of(n.Y), field)),
					}, at: statement.Pos()})
				}
			}
		case *ast.CallExpr:
			all = append(all, f.oneComponent(n, within, statement)...)
		}
	})
	return all
}

// oneComponent is components for a call that compares.
func (f *function) oneComponent(c *ast.CallExpr, within []ast.Node, statement ast.Stmt) (all []change) {
	s, is := c.Fun.(*ast.SelectorExpr)
	if !is {
		return nil
	}
	compares := func(e ast.Expr) bool {
		call, is := e.(*ast.CallExpr)
		return is && strings.Contains(strings.ToLower(calledName(call)), "compare")
	}
	if f.of(c.Fun) == "cmp.Or" && len(c.Args) > 1 && compares(c.Args[0]) {
		for i := range c.Args {
			all = append(all, change{pieces: []piece{withoutOne(f.source, c.Args, i)}, at: statement.Pos()})
		}
		return all
	}
	if len(c.Args) != 1 {
		return nil
	}
	for _, field := range f.componentsOf(s.X) {
		x, y := f.operand(s.X)+"."+field, f.operand(c.Args[0])+"."+field
		switch not, negated := within[len(within)-1].(*ast.UnaryExpr); strings.ToLower(s.Sel.Name) {
		case "less":
			whole, text := ast.Expr(c), x+" < "+y
			if negated && not.Op == token.NOT {
				whole, text = not, x+" >= "+y
			}
			all = append(all, change{pieces: []piece{f.instead(whole, text)}, at: statement.Pos()})
		case "compare":
			t := types.TypeString(f.named(s.X), func(p *types.Package) string {
				if p.Path() == f.pkg.path {
					return ""
				}
				return p.Name()
			})
			// In the head of a statement a literal needs parentheses.
			text := fmt.Sprintf("(%s{%s: %s}).%s((%s{%s: %s}))", t, field, x, s.Sel.Name, t, field, y)
			all = append(all, change{pieces: []piece{f.instead(c, text)}, at: statement.Pos()})
		}
	}
	return all
}

// operand is the text of an expression before a dot. In the head of a statement a literal needs parentheses.
func (f *function) operand(e ast.Expr) string {
	if _, is := e.(*ast.CompositeLit); is {
		return "(" + f.of(e) + ")"
	}
	return f.of(e)
}

// componentsOf are the first two fields of a struct of numbers that has an order, or is a name.
func (f *function) componentsOf(e ast.Expr) []string {
	n := f.named(e)
	if n == nil {
		return nil
	}
	s, is := n.Underlying().(*types.Struct)
	if !is || s.NumFields() < 2 || s.NumFields() > 3 {
		return nil
	}
	var names []string
	for v := range s.Fields() {
		if !isInteger(v.Type()) || !v.Exported() && v.Pkg().Path() != f.pkg.path {
			return nil
		}
		names = append(names, v.Name())
	}
	return names[:2]
}

// guards takes out an if that ends the function or goes on with a loop, or a case of a switch over conditions.
func guards(f *function) (all []change) {
	f.walk(func(n ast.Node, within []ast.Node, statement ast.Stmt) {
		switch n := n.(type) {
		case *ast.IfStmt:
			if n == statement && n.Else == nil && leaves(n.Body.List) &&
				!f.isError(n.Cond) && !f.refuses(n.Body.List) && !f.count(n.Body.List) {
				all = append(all, change{pieces: []piece{f.without(n)}, at: n.Pos(), keeps: f.never(n.Cond)})
			}
		case *ast.SwitchStmt:
			if n.Tag != nil {
				return
			}
			for _, s := range n.Body.List {
				c := s.(*ast.CaseClause)
				if len(c.List) != 1 || f.isError(c.List[0]) || f.refuses(c.Body) || f.count(c.Body) {
					continue
				}
				never := f.instead(c.List[0], fmt.Sprintf("false && (%s)", f.of(c.List[0])))
				all = append(all, change{
					[]piece{f.instead(c, "")}, []piece{never}, statement.Pos(), f.never(c.List[0]),
				})
			}
		}
	})
	return all
}

// leaves reports whether statements end with one that leaves a function or a loop's turn.
func leaves(body []ast.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	switch body[len(body)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

// operands takes out one of the conditions that && or || join.
func operands(f *function) (all []change) {
	f.walk(func(n ast.Node, _ []ast.Node, statement ast.Stmt) {
		b, is := n.(*ast.BinaryExpr)
		if !is || b.Op != token.LAND && b.Op != token.LOR {
			return
		}
		without := func(gone, left ast.Expr) change {
			idle := fmt.Sprintf("(%s || true)", f.of(gone))
			if b.Op == token.LOR {
				idle = fmt.Sprintf("(%s && false)", f.of(gone))
			}
			return change{
				[]piece{f.instead(b, f.of(left))}, []piece{f.instead(gone, idle)}, statement.Pos(), f.goesUnseen(b, gone, left),
			}
		}
		if !f.isError(b.Y) {
			all = append(all, without(b.Y, b.X))
		}
		if left, chain := b.X.(*ast.BinaryExpr); chain && left.Op == b.Op || f.isError(b.X) {
			return // each of a chain once
		}
		all = append(all, without(b.X, b.Y))
	})
	return all
}

// caseSwaps has two cases that follow each other do what the other one does.
func caseSwaps(f *function) (all []change) {
	f.walk(func(n ast.Node, _ []ast.Node, statement ast.Stmt) {
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.SwitchStmt:
			body = n.Body
		case *ast.TypeSwitchStmt:
			body = n.Body
		default:
			return
		}
		for i := 1; i < len(body.List); i++ {
			a, b := body.List[i-1].(*ast.CaseClause).Body, body.List[i].(*ast.CaseClause).Body
			if len(a) == 0 || len(b) == 0 || f.refuses(a) || f.refuses(b) || f.count(a) && f.count(b) {
				continue
			}
			one, two := f.span(a), f.span(b)
			one.text, two.text = f.text[two.from:two.to], f.text[one.from:one.to]
			all = append(all, change{pieces: []piece{one, two}, at: statement.Pos(), keeps: f.doTheSame(a, b)})
		}
	})
	return all
}

// span is the part of the file that statements take.
func (s *source) span(list []ast.Stmt) piece {
	return piece{from: s.offset(list[0].Pos()), to: s.offset(list[len(list)-1].End())}
}
