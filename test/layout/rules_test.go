package layout

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"strings"
	"testing"
)

// The rules themselves are tested, so that a green run means something.

func TestAllowed(t *testing.T) {
	tests := []struct {
		area, target string
		want         bool
	}{
		{"replica/view", "replica/register", true},
		{"replica/register", "replica/view", false},
		{"replica/protocol/abd", "replica/protocol/quorum", true},
		{"replica/protocol/abd", "replica/runtime", false},
		{"replica/protocol/abd", "api/peer/v1", true},
		{"replica/protocol/abd", "api/register/v1", false},
		{"replica/simulator", "replica/transport", false},
		{"controllers", "replica/protocol/gryff", false},
		{"replica/listener/redis", "replica/listener/operation", true},
		{"replica/listener/operation", "replica/listener/redis", false},
		{"replica/listener/redis", "replica/listener/grpc", false},
		{"cmd/georegister", "replica/simulator", true},
	}
	for _, tt := range tests {
		if got := allowed(source{area: tt.area}, tt.target); got != tt.want {
			t.Errorf("%s may import %s: %t, want %t", tt.area, tt.target, got, tt.want)
		}
	}
}

func TestMapLoopsAreFound(t *testing.T) {
	const text = `package p
import "iter"
type set map[string]int
func f(s set, m map[int]int, l []int, q iter.Seq[int]) {
	for range s { // line 5: found
	}
	// order is irrelevant: only a sum
	for range m { // excused
	}
	for range m { // sorted below
	}
	for range l {
	}
	for range q {
	}
	// order is irrelevant:
	for range m { // line 17: no reason given
	}
}
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	if build.Default.GOROOT == "" { // a program that was built with -trimpath does not know it
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			t.Fatal(err)
		}
		build.Default.GOROOT = strings.TrimSpace(string(root))
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	if _, err := config.Check("p", fset, []*ast.File{file}, info); err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, loop := range mapLoops(info, file) {
		if !excused(fset, file, loop) {
			found = append(found, fset.Position(loop).Line)
		}
	}
	if len(found) != 2 || found[0] != 5 || found[1] != 17 {
		t.Errorf("found loops at lines %v, want 5 and 17", found)
	}
}
