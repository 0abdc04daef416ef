// Package equivalent holds what people found out about generated mutants that the search does not find: those that
// change nothing which a store promises, and those that it should find.
//
// A file here is about the mutants of one package. Each begins with a line "NAME HASH equivalent" or "NAME HASH missed",
// as `go run ./test/mutants/score -list` prints name and hash, and goes on with sentences in lines that begin with a
// tab: why the mutant keeps every promise, so that a reader can check it, or what the search lacks.
package equivalent

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.txt
var files embed.FS

// Judgement is what was found out about a mutant.
type Judgement struct {
	Hash       string // of the change that was judged
	Equivalent bool   // no check of a store could find it; else the search has missed it
	Why        string
}

// All lists the judgements by the names of mutants.
func All() (map[string]Judgement, error) { return load(files) }

func load(tree fs.FS) (map[string]Judgement, error) {
	names, err := fs.Glob(tree, "*.txt")
	if err != nil {
		return nil, err
	}
	all := map[string]Judgement{}
	for _, name := range names {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		if err := parse(string(text), all); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Base(name), err)
		}
	}
	return all, nil
}

func parse(text string, all map[string]Judgement) error {
	current := ""
	for i, line := range strings.Split(text, "\n") {
		sentence, is := strings.CutPrefix(line, "\t")
		switch {
		case strings.TrimSpace(line) == "":
		case is && current == "":
			return fmt.Errorf("line %d: a sentence of no mutant", i+1)
		case is:
			j := all[current]
			j.Why = strings.TrimSpace(j.Why + " " + strings.TrimSpace(sentence))
			all[current] = j
		default:
			f := strings.Fields(line)
			if len(f) != 3 || f[2] != "equivalent" && f[2] != "missed" {
				return fmt.Errorf("line %d: %q is not NAME HASH equivalent, or NAME HASH missed", i+1, line)
			}
			if _, twice := all[f[0]]; twice {
				return fmt.Errorf("line %d: %s is judged twice", i+1, f[0])
			}
			current = f[0]
			all[current] = Judgement{Hash: f[1], Equivalent: f[2] == "equivalent"}
		}
	}
	for name, j := range all {
		if j.Why == "" {
			return fmt.Errorf("%s: no sentence says why", name)
		}
	}
	return nil
}
