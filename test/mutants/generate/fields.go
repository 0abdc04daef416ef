package generate

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

// recordFields leaves out one field of a record where one is made, and one thing that is read of a record.
func recordFields(f *function) (all []change) {
	f.walk(func(n ast.Node, within []ast.Node, statement ast.Stmt) {
		switch n := n.(type) {
		case *ast.CompositeLit:
			own := f.natureOf(n)
			for i, e := range n.Elts {
				kv, is := e.(*ast.KeyValueExpr)
				if is && !figures.MatchString("."+f.of(kv.Key)) && (own == record || own == neither && f.isStruct(n) && f.readsRecord(kv.Value)) {
					all = append(all, change{pieces: []piece{withoutOne(f.source, n.Elts, i)}, at: statement.Pos()})
				}
			}
		case *ast.AssignStmt:
			all = append(all, f.dropAssigned(n, statement, func(left *ast.SelectorExpr, right ast.Expr) bool {
				nature := f.natureOf(left.X)
				return nature == record || nature == neither && right != nil && f.readsRecord(right)
			})...)
		case *ast.CallExpr:
			if appends.MatchString(f.of(n.Fun)) && len(n.Args) == 2 && !strings.HasSuffix(f.decl.Name.Name, "Key") &&
				f.of(n.Args[1]) != "0" {
				all = append(all, change{pieces: []piece{f.instead(n.Args[1], "0")}, at: statement.Pos()})
			}
		}
	})
	return all
}

// appends are the functions that write a number into a record.
var appends = regexp.MustCompile(`^binary\.(\w+\.)?Append\w+$`)

// isStruct reports whether a literal is one of a struct.
func (f *function) isStruct(n *ast.CompositeLit) bool {
	t := f.typeOf(n)
	if t == nil {
		return false
	}
	_, is := t.Underlying().(*types.Struct)
	return is
}

// readsRecord reports whether an expression has a field of a record.
func (f *function) readsRecord(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is && f.natureOf(s.X) == record {
			found = true
		}
		return true
	})
	return found
}

// dropAssigned leaves out the assignments to fields that are wanted, each of several in a statement by itself.
func (f *function) dropAssigned(a *ast.AssignStmt, statement ast.Stmt, wanted func(*ast.SelectorExpr, ast.Expr) bool,
) (all []change) {
	if a.Tok == token.DEFINE {
		return nil
	}
	for i, l := range a.Lhs {
		left, is := l.(*ast.SelectorExpr)
		if x, index := l.(*ast.IndexExpr); index {
			left, is = x.X.(*ast.SelectorExpr)
		}
		var right ast.Expr
		if len(a.Lhs) == len(a.Rhs) {
			right = a.Rhs[i]
		}
		if !is || figures.MatchString(f.of(l)) || !wanted(left, right) {
			continue
		}
		switch {
		case len(a.Lhs) == 1 && a == statement:
			all = append(all, change{pieces: []piece{f.without(a)}, at: statement.Pos()})
		case len(a.Lhs) == 1:
		case right == nil:
			all = append(all, change{pieces: []piece{f.instead(l, "_")}, at: statement.Pos()})
		default:
			all = append(all, change{
				pieces: []piece{withoutOne(f.source, a.Lhs, i), withoutOne(f.source, a.Rhs, i)}, at: statement.Pos(),
			})
		}
	}
	return all
}

// fills are the names of functions that put something into a message.
var fills = regexp.MustCompile(`^([sS]et|[pP]ut|tell|fill|stamp)\w*$`)

// messageFields leaves one field out of a message.
func messageFields(f *function) (all []change) {
	f.walk(func(n ast.Node, within []ast.Node, statement ast.Stmt) {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if f.natureOf(n) != message {
				return
			}
			for i, e := range n.Elts {
				if kv, is := e.(*ast.KeyValueExpr); is && !figures.MatchString("."+f.of(kv.Key)) {
					all = append(all, change{pieces: []piece{withoutOne(f.source, n.Elts, i)}, at: statement.Pos()})
				}
			}
		case *ast.AssignStmt:
			all = append(all, f.dropAssigned(n, statement, func(left *ast.SelectorExpr, _ ast.Expr) bool {
				return f.natureOf(left.X) == message
			})...)
		case *ast.ExprStmt:
			c, is := n.X.(*ast.CallExpr)
			if is && len(c.Args) > 1 && fills.MatchString(calledName(c)) && f.natureOf(c.Args[0]) == message {
				all = append(all, change{pieces: []piece{f.without(n)}, at: statement.Pos()})
			}
		}
	})
	return all
}

// changesOfView are functions that carry something over a change of the view, into a new process, or from a member to
// another one.
var changesOfView = regexp.MustCompile(`(?i)resume|unfinished|adopt|restore|settle|rebuild|takestate|install|` +
	`carry|transfer|recall|restart|^load|^begin|^reign|^start|^recover|^join|^split|^divide|^wipe|^copy`)

// viewState forgets one thing there.
func viewState(f *function) (all []change) {
	if !changesOfView.MatchString(f.decl.Name.Name) {
		return nil
	}
	all = stateChanges(f)
	f.walk(func(n ast.Node, _ []ast.Node, statement ast.Stmt) {
		c, is := n.(*ast.CompositeLit)
		if !is || !f.isStruct(c) || f.natureOf(c) != neither {
			return
		}
		for i, e := range c.Elts {
			kv, is := e.(*ast.KeyValueExpr)
			if is && !figures.MatchString("."+f.of(kv.Key)) && !isEmptied(kv.Value) {
				all = append(all, change{pieces: []piece{withoutOne(f.source, c.Elts, i)}, at: statement.Pos()})
			}
		}
	})
	return all
}

// statements leaves out one statement that changes what a member has, elsewhere.
func statements(f *function) []change {
	if changesOfView.MatchString(f.decl.Name.Name) {
		return nil
	}
	return stateChanges(f)
}

// stateChanges leaves out one that sets a field, stores a record, or takes something out of a table.
func stateChanges(f *function) (all []change) {
	f.walk(func(n ast.Node, _ []ast.Node, statement ast.Stmt) {
		if s, is := n.(ast.Stmt); !is || s != statement || f.counts(s) {
			return
		}
		switch n := n.(type) {
		case *ast.AssignStmt:
			all = append(all, f.dropAssigned(n, statement, func(left *ast.SelectorExpr, _ ast.Expr) bool {
				return f.natureOf(left.X) == neither
			})...)
		case *ast.IncDecStmt:
			if _, is := n.X.(*ast.SelectorExpr); is {
				all = append(all, change{pieces: []piece{f.without(n)}, at: n.Pos()})
			}
		case *ast.ExprStmt:
			c, is := n.X.(*ast.CallExpr)
			if !is {
				return
			}
			name := calledName(c)
			fillsMessage := len(c.Args) > 1 && f.natureOf(c.Args[0]) == message
			if name == "delete" || name == "clear" || putting.MatchString(name) && !fillsMessage {
				all = append(all, change{pieces: []piece{f.without(n)}, at: n.Pos()})
			}
		}
	})
	return all
}
