package layout

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// ordered lists the areas where the order of a map must not reach an effect: it would break replay.
var ordered = []string{"replica/view", "replica/membership", "replica/protocol", "replica/simulator"}

// excuses are the comments, on the line of a loop or the one before, that say why a map's order does no harm.
var excuses = []string{"// sorted below", "// order is irrelevant: "}

func TestMapOrderReachesNoEffect(t *testing.T) {
	fset, all := sources(t)
	packages := map[string][]*ast.File{}
	for _, s := range all {
		if !s.isTest() && slices.ContainsFunc(ordered, s.in) {
			packages[s.area] = append(packages[s.area], s.file)
		}
	}
	compiled := exportData(t)
	for area, files := range packages {
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: importer.ForCompiler(fset, "gc", compiled)}
		if _, err := config.Check(module+"/"+area, fset, files, info); err != nil {
			t.Errorf("%s: %v", area, err)
			continue
		}
		for _, file := range files {
			for _, loop := range mapLoops(info, file) {
				if !excused(fset, file, loop) {
					t.Errorf(
						"%s: a loop over a map in a protocol: sort first, or say why it does no harm with a comment %q",
						fset.Position(loop), excuses)
				}
			}
		}
	}
}

// exportData finds what the compiler wrote about the packages that the ordered areas import.
func exportData(t *testing.T) importer.Lookup {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, area := range ordered {
		args = append(args, "./"+area+"/...")
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	files := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if path, file, ok := strings.Cut(lines.Text(), "\t"); ok {
			files[path] = file
		}
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// mapLoops finds the loops over a map, or over an iterator of package maps.
func mapLoops(info *types.Info, file *ast.File) []token.Pos {
	var loops []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		if !ok {
			return true
		}
		if _, isMap := info.TypeOf(loop.X).Underlying().(*types.Map); isMap || iteratesMap(info, loop.X) {
			loops = append(loops, loop.Pos())
		}
		return true
	})
	return loops
}

func iteratesMap(info *types.Info, x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	f, ok := info.Uses[selector.Sel].(*types.Func)
	return ok && f.Pkg() != nil && f.Pkg().Path() == "maps"
}

func excused(fset *token.FileSet, file *ast.File, loop token.Pos) bool {
	line := fset.Position(loop).Line
	for _, group := range file.Comments {
		for _, comment := range group.List {
			at := fset.Position(comment.Pos()).Line
			near := at == line || at == line-1
			if near && slices.ContainsFunc(excuses, func(e string) bool { return strings.HasPrefix(comment.Text, e) }) {
				return true
			}
		}
	}
	return false
}
