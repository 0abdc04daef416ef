package layout

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the project's directory, seen from this package.
const root = "../.."

// module is the project's import path.
const module = "github.com/georegister/georegister"

// source is one parsed Go file.
type source struct {
	path  string // relative to root, with forward slashes
	area  string // the directory of path
	lines int
	file  *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// in reports whether the file is in the area or in a area below it.
func (s source) in(area string) bool { return inside(s.area, area) }

// inside reports whether a path is the area or below it.
func inside(path, area string) bool {
	return path == area || strings.HasPrefix(path, area+"/")
}

// sources parses every Go file of the module: nested modules, hidden directories and testdata are not part of it.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	fset := token.NewFileSet()
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && foreign(path, d.Name()) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		all = append(all, source{name, filepath.ToSlash(filepath.Dir(name)), bytes.Count(text, []byte("\n")), file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("no Go files below %s", root)
	}
	return fset, all
}

// foreign reports whether a directory below the root is not part of the module.
func foreign(path, name string) bool {
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "vendor" || name == "bin" {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}
