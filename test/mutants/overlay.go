package mutants

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Variable names the mutant that a program with mutants runs; without it, the program runs the product's code.
const Variable = "GEOREGISTER_MUTANT"

// switchFile is what a package with mutants gets: the number of the one that runs.
const switchFile = "active_mutant.go"

// Overlay writes the files of a module with all mutants behind switches into a directory, and returns the name of the
// file there which the go command takes as -overlay.
func Overlay(module, out string, all []Mutant) (string, error) {
	replaced := map[string]string{}
	byPackage := map[string][]Mutant{}
	names := "\n"
	for _, m := range all {
		byPackage[m.Package] = append(byPackage[m.Package], m)
		names += m.Name + "\n"
	}
	for pkg, mutants := range byPackage {
		files, err := mutate(filepath.Join(module, pkg), mutants, names)
		if err != nil {
			return "", err
		}
		for name, text := range files {
			to := filepath.Join(out, strings.ReplaceAll(pkg, "/", "_")+"_"+name)
			if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
				return "", err
			}
			replaced[filepath.Join(module, pkg, name)] = to
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	name := filepath.Join(out, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// switchText is the text of a switch file: of a package, with the numbers of its mutants, and the names of all mutants of
// the program, a line each. A name that is none of them ends the program: it would run the product's code.
const switchText = `package %[1]s

import (
	"os"
	"strings"
)

var activeMutant = func() int {
	name := os.Getenv(%[2]q)
	if name != "" && !strings.Contains(%[4]q, "\n"+name+"\n") {
		os.Stderr.WriteString(%[2]q + ": this program has no mutant " + name + "\n")
		os.Exit(2)
	}
	return %#[3]v[name]
}()
`

// mutate makes the files of a package that mutants change, by their names. The program has mutants of all those names.
func mutate(folder string, mutants []Mutant, names string) (map[string]string, error) {
	files := map[string]*source{}
	numbers := map[string]int{}
	for i, m := range mutants {
		number := i + 1
		numbers[m.Name] = number
		for _, e := range m.Edits {
			if files[e.File] == nil {
				s, err := readSource(filepath.Join(folder, e.File))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", m.Name, err)
				}
				files[e.File] = s
			}
			if err := files[e.File].apply(number, e); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", m.Name, e.File, err)
			}
		}
	}
	texts := map[string]string{}
	name := ""
	for file, s := range files {
		texts[file] = s.switched()
		name = s.tree.Name.Name
	}
	texts[switchFile] = fmt.Sprintf(switchText, name, Variable, numbers, names)
	return texts, nil
}

// source is a file, and the variants of its functions.
type source struct {
	text      string
	tree      *ast.File
	base      int // of positions
	functions map[*ast.FuncDecl]map[int]string
}

func readSource(name string) (*source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{
		text: string(text), tree: tree, base: files.File(tree.FileStart).Base(), functions: map[*ast.FuncDecl]map[int]string{},
	}, nil
}

func (s *source) offset(p token.Pos) int { return int(p) - s.base }

func (s *source) of(n ast.Node) string { return s.text[s.offset(n.Pos()):s.offset(n.End())] }

// apply makes the variant of the function that an edit is of, or changes the variant that an earlier edit made.
func (s *source) apply(number int, e Edit) error {
	at := lines(s.text, e.Old)
	if len(at) != 1 {
		return fmt.Errorf("the lines that it replaces are there %d times:\n%s", len(at), e.Old)
	}
	for _, d := range s.tree.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || at[0] < s.offset(f.Pos()) || at[0]+len(e.Old) > s.offset(f.End())+1 {
			continue
		}
		variants := s.functions[f]
		if variants == nil {
			variants = map[int]string{}
			s.functions[f] = variants
		}
		text, changed := variants[number]
		if !changed {
			text = s.of(f)
		}
		if len(lines(text+"\n", e.Old)) != 1 {
			return fmt.Errorf("two of its places overlap in %s", f.Name.Name)
		}
		variants[number] = strings.TrimSuffix(strings.Replace("\n"+text+"\n", "\n"+e.Old, "\n"+e.New, 1)[1:], "\n")
		return nil
	}
	return fmt.Errorf("the lines that it replaces are not in one function:\n%s", e.Old)
}

// lines is where whole lines stand in a text.
func lines(text, wanted string) []int {
	var at []int
	for from := 0; ; {
		i := strings.Index(text[from:], wanted)
		if i < 0 {
			return at
		}
		if from+i == 0 || text[from+i-1] == '\n' {
			at = append(at, from+i)
		}
		from += i + 1
	}
}

// insertion is text to put into a file, in place of some that is there.
type insertion struct {
	at, end int
	text    string
}

// switched is the file whose functions go to the variant of the active mutant. Lines keep their numbers.
func (s *source) switched() string {
	var all []insertion
	var copies strings.Builder
	// The same mutants make the same text, so that the compiler finds what it has compiled before.
	inOrder := slices.SortedFunc(maps.Keys(s.functions), func(a, b *ast.FuncDecl) int { return int(a.Pos() - b.Pos()) })
	for _, f := range inOrder {
		variants := s.functions[f]
		call := s.caller(f, &all)
		numbers := slices.Sorted(maps.Keys(variants))
		body := s.offset(f.Body.Lbrace) + 1
		gates := ""
		for _, n := range numbers {
			name := f.Name.Name + "_mutant" + strconv.Itoa(n)
			gates += fmt.Sprintf(" if activeMutant == %d { %s };", n, call(name))
			from := s.offset(f.Name.Pos()) - s.offset(f.Pos())
			copies.WriteString("\n" + variants[n][:from] + name + variants[n][from+len(f.Name.Name):] + "\n")
		}
		all = append(all, insertion{body, body, gates})
	}
	slices.SortFunc(all, func(a, b insertion) int { return b.at - a.at })
	text := s.text
	for _, i := range all {
		text = text[:i.at] + i.text + text[i.end:]
	}
	return text + copies.String()
}

// caller makes calls of a variant of a function, with its own receiver and parameters; those without names get some.
func (s *source) caller(f *ast.FuncDecl, all *[]insertion) func(name string) string {
	count := 0
	named := func(list *ast.FieldList) (names []string) {
		if list == nil {
			return nil
		}
		for _, field := range list.List {
			ellipsis := ""
			if _, is := field.Type.(*ast.Ellipsis); is {
				ellipsis = "..."
			}
			if len(field.Names) == 0 {
				count++
				name := "argument" + strconv.Itoa(count)
				at := s.offset(field.Type.Pos())
				*all = append(*all, insertion{at, at, name + " "})
				names = append(names, name+ellipsis)
			}
			for _, n := range field.Names {
				name := n.Name
				if name == "_" {
					count++
					name = "argument" + strconv.Itoa(count)
					*all = append(*all, insertion{s.offset(n.Pos()), s.offset(n.End()), name})
				}
				names = append(names, name+ellipsis)
			}
		}
		return names
	}
	receiver := strings.Join(named(f.Recv), "")
	arguments := strings.Join(named(f.Type.Params), ", ")
	var types []string
	if f.Type.TypeParams != nil {
		types = named(f.Type.TypeParams)
	}
	return func(name string) string {
		call := name
		if receiver != "" {
			call = receiver + "." + name
		}
		if types != nil {
			call += "[" + strings.Join(types, ", ") + "]"
		}
		call += "(" + arguments + ")"
		if f.Type.Results == nil {
			return call + "; return"
		}
		return "return " + call
	}
}
