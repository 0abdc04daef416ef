package generate

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

// tells are the names of functions that tell whether something is durable.
var tells = regexp.MustCompile(`^(Durable|durable|Survives|survives|Clean|\w+Durably)$`)

// beforeDurable has something leave before what it tells of is durable.
func beforeDurable(f *function) (all []change) {
	f.walk(func(n ast.Node, within []ast.Node, statement ast.Stmt) {
		switch n := n.(type) {
		case *ast.CallExpr:
			id := called(n)
			if id == nil {
				return
			}
			t := f.typeOf(n)
			switch _, isStatement := statement.(*ast.ExprStmt); {
			case tells.MatchString(id.Name) && t != nil && types.Identical(t, types.Typ[types.Bool]):
				all = append(all, change{pieces: []piece{f.instead(n, "true")}, at: statement.Pos()})
			case isStatement && strings.HasSuffix(id.Name, "Durably"):
				now := f.instead(id, strings.TrimSuffix(id.Name, "Durably"))
				all = append(all, change{
					pieces: []piece{now}, at: statement.Pos(), keeps: f.isRefusal(n.Args[len(n.Args)-1]),
				})
			}
			if s, is := f.typeOf(n.Fun).(*types.Signature); is && s.Params().Len() > 1 && len(n.Args) > 1 &&
				s.Params().At(0).Name() == "durable" {
				all = append(all, change{pieces: []piece{f.instead(n.Args[0], "true")}, at: statement.Pos()})
			}
		case *ast.AssignStmt:
			all = append(all, f.sendsAtOnce(n, statement)...)
		case *ast.ReturnStmt:
			if r := f.decl.Type.Results; r != nil && len(r.List) == 1 && len(r.List[0].Names) == 1 &&
				r.List[0].Names[0].Name == "wait" && len(n.Results) == 1 && f.of(n.Results[0]) == "true" {
				all = append(all, change{pieces: []piece{f.instead(n.Results[0], "false")}, at: statement.Pos()})
			}
		}
	})
	return all
}

// later are the lists of what leaves once it is durable, and at once those of what does not wait.
var later = map[string]string{"SendAfterPersist": "Send", "CompleteAfterPersist": "Complete", "After": "Send"}

// sendsAtOnce is for an addition to one of these lists.
func (f *function) sendsAtOnce(a *ast.AssignStmt, statement ast.Stmt) []change {
	if len(a.Lhs) != 1 || a.Tok != token.ASSIGN {
		return nil
	}
	left, is := a.Lhs[0].(*ast.SelectorExpr)
	c, isCall := a.Rhs[0].(*ast.CallExpr)
	if !is || !isCall || later[left.Sel.Name] == "" || calledName(c) != "append" || f.of(c.Args[0]) != f.of(left) {
		return nil
	}
	now := f.of(left.X) + "." + later[left.Sel.Name]
	return []change{{pieces: []piece{f.instead(left, now), f.instead(c.Args[0], now)}, at: statement.Pos()}}
}

// again are the names of functions that send again what may have been lost.
var again = regexp.MustCompile(`(?i)retransmit|retry|again|resend|remind|^tick`)

// retransmissions has a message not be sent again.
func retransmissions(f *function) (all []change) {
	asks := again.MatchString(f.decl.Name.Name)
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if c, is := n.(*ast.CallExpr); is {
			asks = asks || calledName(c) == "Unanswered" || calledName(c) == "Again"
		}
		return true
	})
	if !asks {
		return nil
	}
	f.walk(func(n ast.Node, _ []ast.Node, statement ast.Stmt) {
		s, is := n.(*ast.ExprStmt)
		if !is {
			return
		}
		if c, is := s.X.(*ast.CallExpr); is && s == statement && f.pkg.effects.isSending(c) {
			all = append(all, change{pieces: []piece{f.without(s)}, at: s.Pos()})
		}
	})
	return all
}
