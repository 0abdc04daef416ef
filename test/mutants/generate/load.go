package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Module is the code that is mutated, with its types.
type Module struct {
	folder   string
	imports  types.Importer
	packages []*pkg
}

// pkg is a package of it.
type pkg struct {
	folder    string // in the module
	path      string // as it is imported
	fset      *token.FileSet
	files     []*source
	info      *types.Info
	functions []*function
	effects   effects
	natures   map[types.Object]nature
	served    map[*ast.FuncDecl]bool // the functions that nothing but people uses the outcome of
	unread    map[*types.Var]bool    // the fields that nothing else reads
}

// source is a file.
type source struct {
	pkg  *pkg
	name string
	text string
	tree *ast.File
	file *token.File
}

func (s *source) offset(p token.Pos) int { return s.file.Offset(p) }

// function is a function with a body, or a method.
type function struct {
	*source
	decl   *ast.FuncDecl
	name   string  // with the type of its receiver
	people []piece // see isForPeople
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Error                   *struct{ Err string }
}

// Load reads the packages in those folders of a module. Whatever they import comes compiled from the go command.
func Load(module string, folders []string) (*Module, error) {
	arguments := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Error"}
	for _, f := range folders {
		arguments = append(arguments, "./"+f)
	}
	c := exec.Command("go", arguments...)
	c.Dir = module
	var complaints bytes.Buffer
	c.Stderr = &complaints
	text, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, complaints.String())
	}
	exports, byFolder := map[string]string{}, map[string]listed{}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if l.Error != nil {
			return nil, fmt.Errorf("go list: %s: %s", l.ImportPath, l.Error.Err)
		}
		exports[l.ImportPath] = l.Export
		byFolder[l.Dir] = l
	}
	m := &Module{folder: module}
	m.imports = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package %s is compiled", path)
		}
		return os.Open(exports[path])
	})
	for _, f := range folders {
		dir, err := filepath.Abs(filepath.Join(module, f))
		if err != nil {
			return nil, err
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil, err
		}
		p, err := m.load(f, byFolder[dir])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		m.packages = append(m.packages, p)
	}
	return m, nil
}

func (m *Module) load(folder string, l listed) (*pkg, error) {
	p := &pkg{folder: folder, path: l.ImportPath, fset: token.NewFileSet(), natures: map[types.Object]nature{}}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{},
	}
	var trees []*ast.File
	for _, name := range l.GoFiles {
		text, err := os.ReadFile(filepath.Join(l.Dir, name))
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(p.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s := &source{pkg: p, name: name, text: string(text), tree: tree, file: p.fset.File(tree.FileStart)}
		p.files, trees = append(p.files, s), append(trees, tree)
	}
	config := types.Config{Importer: m.imports}
	if _, err := config.Check(p.path, p.fset, trees, p.info); err != nil {
		return nil, err
	}
	for _, s := range p.files {
		if ast.IsGenerated(s.tree) || forPeople.MatchString(s.name) {
			continue
		}
		for _, d := range s.tree.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Body != nil && !namesForPeople.MatchString(f.Name.Name) {
				p.functions = append(p.functions, &function{source: s, decl: f, name: nameOf(f)})
			}
		}
	}
	serves := p.servesPeople()
	p.served = map[*ast.FuncDecl]bool{}
	p.functions = slices.DeleteFunc(p.functions, func(f *function) bool {
		p.served[f.decl] = serves(f)
		return p.served[f.decl]
	})
	p.unread = p.unreadFields()
	p.effects = effectsOf(p)
	return p, nil
}

// forPeople are files about what people see, and of the definitions that registries read; namesForPeople are such
// functions, and those that refuse input.
var (
	forPeople      = regexp.MustCompile(`^(describe|status|stats|paths|definition)\.go$`)
	namesForPeople = regexp.MustCompile(`^(String|Error|Status|Stats|Paths|ChangePaths|Describe.*|describe.*|` +
		`[vV]alidate.*|[cC]heck|[cC]heck(Operation|Key)|[pP]arse.*|unserved|NoQuorum)$`)
)

// servesPeople tells the functions that nothing but functions for people uses, such as one that counts what is left to do
// for a status.
func (p *pkg) servesPeople() func(*function) bool {
	users := map[types.Object][]types.Object{} // of each function, those that name it; nil stands for a function for people
	mutated := map[*ast.FuncDecl]bool{}
	for _, f := range p.functions {
		mutated[f.decl] = true
	}
	for _, s := range p.files {
		for _, d := range s.tree.Decls {
			f, is := d.(*ast.FuncDecl)
			var user types.Object
			switch {
			case !is:
				user = types.Universe.Lookup("true") // no function, and not for people
			case mutated[f]:
				user = p.info.Defs[f.Name]
			}
			p.uses(&function{source: s}, d, user, users)
		}
	}
	serves := map[types.Object]bool{nil: true}
	for grew := true; grew; {
		grew = false
		for used, by := range users { // what is found depends on no order
			if !serves[used] && !slices.ContainsFunc(by, func(u types.Object) bool { return u != used && !serves[u] }) {
				serves[used], grew = true, true
			}
		}
	}
	return func(f *function) bool { return serves[p.info.Defs[f.decl.Name]] }
}

// uses notes who names which of the package's functions below a node. In a statement that is about figures alone, or what
// people are told of a decision, it is nobody but people.
func (p *pkg) uses(f *function, below ast.Node, user types.Object, users map[types.Object][]types.Object) {
	people := f.forPeople(below)
	ast.Inspect(below, func(n ast.Node) bool {
		if s, is := n.(ast.Stmt); is && n != below && user != nil && f.counts(s) {
			p.uses(f, s, nil, users)
			return false
		}
		if id, is := n.(*ast.Ident); is {
			if used, is := p.info.Uses[id].(*types.Func); is && !used.Exported() {
				by := user
				if isWithin(people, f.instead(id, "")) {
					by = nil
				}
				users[used.Origin()] = append(users[used.Origin()], by)
			}
		}
		return true
	})
}

// nameOf is a function's name, a method's with the type of its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// Compiles reports whether the code with a site's mutant has no error. A local that the mutant leaves unused is used.
func (m *Module) Compiles(s *Site) bool {
	unused, ok := m.check(s)
	if ok {
		return true
	}
	if len(unused) > 0 && s.instead != nil {
		s.pieces = s.instead
		return s.edit() && m.succeeds(s)
	}
	for _, name := range unused {
		if !s.use(name) {
			return false
		}
	}
	return len(unused) > 0 && m.succeeds(s)
}

func (m *Module) succeeds(s *Site) bool {
	_, ok := m.check(s)
	return ok
}

// check looks for errors in the package with a site's variant of its function beside the function, as mutants.Overlay
// has it. It returns the locals that are unused, if nothing else is wrong.
func (m *Module) check(s *Site) (unused []string, ok bool) {
	f := s.function
	variant, name := s.variant(), f.offset(f.decl.Name.Pos())-f.offset(f.decl.Pos())
	text := f.text + "\n" + variant[:name] + f.decl.Name.Name + "_mutant" +
		variant[name+len(f.decl.Name.Name):] + "\n"
	fset := token.NewFileSet()
	changed, err := parser.ParseFile(fset, f.source.name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, false
	}
	trees := []*ast.File{changed}
	for _, other := range f.pkg.files {
		if other != f.source {
			tree, err := parser.ParseFile(fset, other.name, other.text, parser.SkipObjectResolution)
			if err != nil {
				return nil, false
			}
			trees = append(trees, tree)
		}
	}
	ok = true
	wrong := false
	config := types.Config{Importer: m.imports, Error: func(err error) {
		ok = false
		var e types.Error
		if local, is := "", false; errors.As(err, &e) {
			if local, is = strings.CutPrefix(e.Msg, "declared and not used: "); is {
				unused = append(unused, local)
				return
			}
		}
		wrong = true
	}}
	_, _ = config.Check(f.pkg.path, fset, trees, nil) // errors were told
	if wrong {
		unused = nil
	}
	return unused, ok
}
