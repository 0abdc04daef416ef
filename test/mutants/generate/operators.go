package generate

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// operator makes mistakes of one kind.
type operator struct {
	name    string
	breaks  string // what a mutant of it does
	changes func(f *function) []change
}

var operators = []operator{
	{"record-field", "a field of a record is not stored, or not read back", recordFields},
	{"message-field", "a message lacks a field", messageFields},
	{"before-durable", "something leaves before what it tells of is durable", beforeDurable},
	{"quorum", "one more or one less is asked of a quorum or a threshold", quorums},
	{"comparison", "equal counts as less, or does not any more", comparisons},
	{"component", "of an order of several components only one counts", components},
	{"guard", "a case that ends a function, or is another way through it, is not told apart", guards},
	{"operand", "one of several conditions does not count", operands},
	{"retransmission", "a message is not sent again", retransmissions},
	{"view-state", "one thing is forgotten at a change of the view, a resumption or a state transfer", viewState},
	{"case-swap", "two cases do what the other one should", caseSwaps},
	{"statement", "a field is not set, or a record not stored", statements},
}

// type information

func (f *function) typeOf(e ast.Expr) types.Type { return f.pkg.info.TypeOf(e) }

// named is the type of an expression, or that it points to, if it has a name.
func (f *function) named(e ast.Expr) *types.Named { return namedOf(f.typeOf(e)) }

func namedOf(t types.Type) *types.Named {
	if t == nil {
		return nil
	}
	if p, is := types.Unalias(t).(*types.Pointer); is {
		t = p.Elem()
	}
	n, _ := types.Unalias(t).(*types.Named)
	return n
}

// nature is what a struct of the wire format is for.
type nature int

const (
	neither nature = iota
	message
	record
)

// roots are the records of journals that are not named so.
var roots = regexp.MustCompile(`Record$|^(KeyState|LogEntry|PartitionSession|SessionHorizon|FragmentPieces|` +
	`RaftEntry|RaftHard|RaftStart|RaftApplied)$`)

// natureOf tells records, and what is a part of one, from messages.
func (f *function) natureOf(e ast.Expr) nature {
	n := f.named(e)
	if n == nil || n.Obj().Pkg() == nil {
		return neither
	}
	known, found := f.pkg.natures[n.Obj()]
	if !found {
		known = natureOf(n)
		f.pkg.natures[n.Obj()] = known
	}
	return known
}

func natureOf(n *types.Named) nature {
	path := n.Obj().Pkg().Path()
	if !strings.HasSuffix(path, "api/peer/v1") && !strings.HasSuffix(path, "api/witness/v1") {
		return neither
	}
	if _, is := n.Underlying().(*types.Struct); !is {
		return neither
	}
	scope := n.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		if t, is := scope.Lookup(name).(*types.TypeName); is && roots.MatchString(name) {
			if has(namedOf(t.Type()), n, map[*types.Named]bool{}) {
				return record
			}
		}
	}
	return message
}

// has reports whether a struct is another one, or has one of its type somewhere.
func has(s, wanted *types.Named, seen map[*types.Named]bool) bool {
	if s == nil || seen[s] {
		return false
	}
	seen[s] = true
	if s.Obj() == wanted.Obj() {
		return true
	}
	fields, is := s.Underlying().(*types.Struct)
	if !is {
		return false
	}
	for v := range fields.Fields() {
		t := v.Type()
		if l, is := t.Underlying().(*types.Slice); is {
			t = l.Elem()
		}
		if v.Exported() && has(namedOf(t), wanted, seen) {
			return true
		}
	}
	return false
}

// isError reports whether an expression has an error in it.
func (f *function) isError(e ast.Node) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		x, is := n.(ast.Expr)
		if !is {
			return true
		}
		if t := f.typeOf(x); t != nil && types.Identical(t, types.Universe.Lookup("error").Type()) {
			found = true
		}
		return true
	})
	return found
}

// refuses reports whether statements do nothing but tell people of a damaged disk, or of what no sound member sends:
// no search has either.
func (f *function) refuses(body []ast.Stmt) bool {
	found := false
	for _, s := range body {
		ast.Inspect(s, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if slices.Contains([]string{"Fault", "Refuse", "refuse", "Damaged", "Errorf", "fail"}, calledName(n)) {
					found = true
				}
			case *ast.ReturnStmt:
				found = found || slices.ContainsFunc(n.Results, func(e ast.Expr) bool { return f.isError(e) })
			case *ast.AssignStmt: // of a reader that is at the end of what it reads
				left, is := n.Lhs[0].(*ast.SelectorExpr)
				found = found || is && left.Sel.Name == "failed"
			}
			return true
		})
	}
	return found
}

// figures are fields that people read and nothing depends on.
var figures = regexp.MustCompile(`(^|\.)(Trips|trips|roundTrips|RoundTrips|Fast|fastPath|Message|Why|why|` +
	`Ignored|Remaining|Compared|SameBytes|bytesSame|bytesSent)$|\bstats\.|\bStats\.|^c\.(fast|slow)$`)

// isMemory reports whether a condition asks how much memory there is for a list: a list that lies elsewhere is the same.
func isMemory(n ast.Node) bool {
	switch s := n.(type) {
	case *ast.IfStmt:
		n = s.Cond
	case *ast.BinaryExpr:
	default:
		return false
	}
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		c, is := n.(*ast.CallExpr)
		found = found || is && calledName(c) == "cap"
		return true
	})
	return found
}

// isEmptied reports whether an expression is an empty list in memory that is used again.
func isEmptied(e ast.Expr) bool {
	s, is := e.(*ast.SliceExpr)
	if !is || s.Low != nil {
		return false
	}
	high, is := s.High.(*ast.BasicLit)
	return is && high.Value == "0"
}

// counts reports whether a statement is about figures alone, counts a path, or returns a text for people.
func (f *function) counts(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		c, is := s.X.(*ast.CallExpr)
		return is && slices.Contains([]string{"Took", "took", "Count"}, calledName(c))
	case *ast.IncDecStmt:
		return figures.MatchString(f.of(s.X))
	case *ast.ReturnStmt: // of a text
		return len(s.Results) > 0 && !slices.ContainsFunc(s.Results, func(e ast.Expr) bool {
			t := f.typeOf(e)
			return t == nil || !types.Identical(t.Underlying(), types.Typ[types.String])
		})
	case *ast.AssignStmt:
		return !slices.ContainsFunc(s.Lhs, func(e ast.Expr) bool { return !figures.MatchString(f.of(e)) })
	}
	return false
}

// count reports whether all of some statements, if there are any, are about figures.
func (f *function) count(body []ast.Stmt) bool {
	return len(body) > 0 && !slices.ContainsFunc(body, func(s ast.Stmt) bool { return !f.counts(s) })
}
