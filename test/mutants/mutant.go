// Package mutants puts known mistakes into the product's code while it is compiled, for tests which show that the search,
// a script or another test finds them. The product itself holds none of them.
//
// A mutant is a file in a directory beside this one, named for its package. It begins with fields, one in a line:
//
//	package: replica/protocol/abd
//	breaks: what goes wrong, for whom
//	source: where the paper, or the trap, is described; may be left out
//
// and goes on with the lines that it replaces, as a patch without numbers: "--- FILE" names the file, "@@" begins the next
// place in it, and of the lines that follow those with "-" are replaced by those with "+"; one that begins with a space
// stays. The lines of a place stand together in one function, and nowhere else in the file. After the last line of a
// function, declarations may be added that the mutant needs.
package mutants

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Mutant is one mistake.
type Mutant struct {
	Name    string // directory and file, as in abd/skip-write-back
	Package string // the folder of its package in the module
	Breaks  string // what goes wrong
	Source  string // where it is described; may be empty
	Edits   []Edit
}

// Edit is lines of a file, and what a mutant puts in their place.
type Edit struct {
	File     string // in the mutant's package
	Old, New string // whole lines
}

// suffix is that of the files with mutants.
const suffix = ".mutant"

// Load reads all mutants below a directory, in the order of their names.
func Load(tree fs.FS) ([]Mutant, error) {
	var all []Mutant
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != suffix {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		m, err := parse(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.Name = strings.TrimSuffix(name, suffix)
		all = append(all, m)
		return nil
	})
	return all, err
}

func parse(text string) (Mutant, error) {
	var m Mutant
	fields := map[string]*string{"package": &m.Package, "breaks": &m.Breaks, "source": &m.Source}
	file := ""
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		name, begins := strings.CutPrefix(line, "--- ")
		switch {
		case begins:
			file = name
			m.Edits = append(m.Edits, Edit{File: file})
		case file == "":
			key, value, found := strings.Cut(line, ": ")
			if field := fields[key]; found && field != nil && *field == "" {
				*field = value
			} else if line != "" {
				return m, fmt.Errorf("line %d: %q is none of the fields package, breaks, source, each once", i+1, line)
			}
		case line == "@@":
			m.Edits = append(m.Edits, Edit{File: file})
		case line == "":
			return m, fmt.Errorf("line %d is empty; an empty line that stays is a single space", i+1)
		default:
			e := &m.Edits[len(m.Edits)-1]
			if !slices.Contains([]byte("-+ "), line[0]) {
				return m, fmt.Errorf("line %d begins with %q, and not with -, + or a space", i+1, line[0])
			}
			if line[0] != '+' {
				e.Old += line[1:] + "\n"
			}
			if line[0] != '-' {
				e.New += line[1:] + "\n"
			}
		}
	}
	if m.Package == "" || m.Breaks == "" {
		return m, fmt.Errorf("it lacks the field package, or breaks")
	}
	if len(m.Edits) == 0 || slices.ContainsFunc(m.Edits, func(e Edit) bool { return e.Old == "" || e.Old == e.New }) {
		return m, fmt.Errorf("it changes nothing, or a place of it does not")
	}
	return m, nil
}
