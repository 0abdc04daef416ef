package generate

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/georegister/georegister/test/mutants"
)

// change is what an operator does to a function at one place.
type change struct {
	pieces []piece
	// instead does the same and leaves no local unused; nil: there is no such way.
	instead []piece
	at      token.Pos // of the statement that changes
	keeps   bool      // every promise, by what the code says: see unchanged.go
}

// piece is a part of a file, by offsets, and the text in its place.
type piece struct {
	from, to int
	text     string
}

// site makes the site of a change; nil if it changes nothing.
func (f *function) site(o operator, c change, count int) *Site {
	s := &Site{Operator: o.name, function: f, pieces: c.pieces, instead: c.instead, at: f.offset(c.at)}
	s.Mutant = mutants.Mutant{
		Name:    fmt.Sprintf("%s/%s/%s:%s#%d", Short(f.pkg.folder), o.name, f.source.name, f.name, count),
		Package: f.pkg.folder, Breaks: o.breaks,
	}
	if !s.edit() {
		return nil
	}
	return s
}

// key is what a site makes of its function.
func (s *Site) key() string {
	return s.function.source.name + " " + strings.Join(strings.Fields(s.variant()), " ")
}

// replaced is a part of the file's text, with the pieces in it replaced.
func (s *Site) replaced(from, to int) string {
	slices.SortFunc(s.pieces, func(a, b piece) int { return a.from - b.from })
	var b strings.Builder
	for _, p := range s.pieces {
		if p.from < from || p.to > to {
			continue
		}
		b.WriteString(s.function.text[from:p.from])
		b.WriteString(p.text)
		from = p.to
	}
	b.WriteString(s.function.text[from:to])
	return b.String()
}

// variant is the changed function.
func (s *Site) variant() string {
	f := s.function
	return s.replaced(f.offset(f.decl.Pos()), f.offset(f.decl.End()))
}

// use has the function use a local before the statement that changes, so that it compiles without another use. It
// reports whether the statement is one that this can be written before.
func (s *Site) use(local string) bool {
	indent := s.function.text[lineBegin(s.function.text, s.at):s.at]
	use := "_ = " + local + "\n" + indent
	for i := range s.pieces {
		if p := &s.pieces[i]; p.from == s.at {
			p.text = use + p.text
			return s.edit()
		}
	}
	s.pieces = append(s.pieces, piece{s.at, s.at, use})
	return s.edit()
}

// edit makes the mutant's edit: the lines that change, and as many around them as make them the only ones of their kind
// in the file. It reports whether there is such an edit.
func (s *Site) edit() bool {
	f, text := s.function, s.function.text
	first, last := lineBegin(text, s.pieces[0].from), s.pieces[0].to
	for _, p := range s.pieces {
		first, last = min(first, lineBegin(text, p.from)), max(last, p.to)
	}
	last = lineEnd(text, last)
	begin, end := lineBegin(text, f.offset(f.decl.Pos())), lineEnd(text, f.offset(f.decl.End()))
	after := withoutEmpty(s.replaced(first, last))
	if after == text[first:last] {
		return false
	}
	changed := after
	from, to := first, last
	for up := true; count(text, text[from:to]) > 1; up = !up {
		switch {
		case from > begin && (up || to == end):
			from = lineBegin(text, from-1)
		case to < end:
			to = lineEnd(text, to)
		default:
			return false
		}
	}
	s.Edits = []mutants.Edit{{
		File: f.source.name, Old: text[from:to], New: text[from:first] + changed + text[last:to],
	}}
	return true
}

// lineBegin is where the line begins that has an offset, and lineEnd where the next one does.
func lineBegin(text string, at int) int { return strings.LastIndexByte(text[:at], '\n') + 1 }

func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// withoutEmpty leaves out lines that have become empty.
func withoutEmpty(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			kept.WriteString(strings.TrimRight(line, " \t\n") + "\n")
		}
	}
	return kept.String()
}

// count is how often whole lines stand in a text.
func count(text, lines string) int {
	return strings.Count("\n"+text, "\n"+lines)
}

// of is the text of a node.
func (s *source) of(n ast.Node) string { return s.text[s.offset(n.Pos()):s.offset(n.End())] }

// instead is the piece that puts a text in the place of a node.
func (s *source) instead(n ast.Node, text string) piece {
	return piece{s.offset(n.Pos()), s.offset(n.End()), text}
}

// without takes a statement out, with a comment behind it.
func (s *source) without(n ast.Stmt) piece {
	p := s.instead(n, "")
	if rest := s.text[p.to:lineEnd(s.text, p.to)]; strings.HasPrefix(strings.TrimLeft(rest, " \t"), "//") {
		p.to += len(strings.TrimRight(rest, "\n"))
	}
	return p
}

// withoutOne takes one of the elements of a list out.
func withoutOne[N ast.Node](s *source, list []N, i int) piece {
	switch {
	case i+1 < len(list):
		return piece{s.offset(list[i].Pos()), s.offset(list[i+1].Pos()), ""}
	case i > 0:
		return piece{s.offset(list[i-1].End()), s.offset(list[i].End()), ""}
	}
	p := s.instead(list[i], "")
	if strings.HasPrefix(s.text[p.to:], ",") {
		p.to++
	}
	return p
}

// walk visits the nodes of a function's body, each with those that it is in, and with the statement of a list of
// statements that it is in. Passed over is what no check could see: what is about figures or memory alone, and the
// conditions of what only tells people of a damaged disk, or of what no sound member sends.
func (f *function) walk(visit func(n ast.Node, within []ast.Node, statement ast.Stmt)) {
	var within []ast.Node
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if n == nil {
			within = within[:len(within)-1]
			return true
		}
		if f.refuses(f.decides(n, within)) {
			return false
		}
		statement := statementOf(append(slices.Clone(within), n))
		if _, text := statement.(*ast.ReturnStmt); text || statement == nil || !f.counts(statement) && !isMemory(n) {
			visit(n, within, statement)
		}
		within = append(within, n)
		return true
	})
}

// decides are the statements that a node is the condition of, if it is one.
func (f *function) decides(n ast.Node, within []ast.Node) []ast.Stmt {
	if len(within) == 0 {
		return nil
	}
	switch s := within[len(within)-1].(type) {
	case *ast.IfStmt:
		if n == s.Cond && s.Else == nil {
			return s.Body.List
		}
	case *ast.CaseClause:
		if e, is := n.(ast.Expr); is && slices.Contains(s.List, e) {
			return s.Body
		}
	}
	return nil
}

// statementOf is the innermost statement among nodes that stands in a list of statements.
func statementOf(nodes []ast.Node) ast.Stmt {
	for i := len(nodes) - 1; i > 0; i-- {
		statement, is := nodes[i].(ast.Stmt)
		if !is {
			continue
		}
		switch nodes[i-1].(type) {
		case *ast.BlockStmt, *ast.CaseClause:
			return statement
		}
	}
	return nil
}
