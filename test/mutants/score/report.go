package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/georegister/georegister/test/mutants/equivalent"
	"github.com/georegister/georegister/test/mutants/generate"
)

// tally counts what came of some mutants.
type tally struct {
	drawn, claimed, search, explorer, experiment, costs, deviation int
	tests                                                          int   // found by the package's tests, which does not count
	after                                                          []int // schedules
}

// score is the share of those found, of those that are not claimed to be equivalent.
func (t *tally) score() string {
	if t.drawn == t.claimed {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(t.search+t.explorer+t.experiment+t.costs+t.deviation)/float64(t.drawn-t.claimed))
}

// typical is the median of how many schedules it took, and the most.
func (t *tally) typical() string {
	if len(t.after) == 0 {
		return "- | -"
	}
	slices.Sort(t.after)
	return fmt.Sprintf("%d | %d", t.after[len(t.after)/2], t.after[len(t.after)-1])
}

// judgement is what people said of a mutant as it is now.
func (r *runner) judgement(s *generate.Site) (equivalent.Judgement, bool) {
	j, judged := r.judged[s.Name]
	return j, judged && j.Hash == s.Hash()
}

func (r *runner) count(t *tally, s *generate.Site) {
	t.drawn++
	known := r.results[s.Name]
	if known.Tests == "found" {
		t.tests++
	}
	switch j, _ := r.judgement(s); {
	case known.Found == "search":
		t.search++
		t.after = append(t.after, known.Schedules)
	case known.Found == "explorer":
		t.explorer++
	case known.Found == "experiment":
		t.experiment++
	case known.Found == "costs":
		t.costs++
	case known.Found == "deviation":
		t.deviation++
	case j.Equivalent:
		t.claimed++
	}
}

// title begins the page.
const title = `# The score of generated mutants

Made by ` + "`make mutants SEED=%d COUNT=%d MUTANTS='-page %s'`" + `, of the mutants that [checking.md](checking.md#mutants) describes. The score is the
share of those that were found, of those that are not shown to keep all promises. An experiment without faults finds what is slower, which no history tells.

`

// report prints the table, and writes it into the page.
func (r *runner) report() error {
	if err := r.table(os.Stdout); err != nil || r.page == "" {
		return err
	}
	file, err := os.Create(r.page)
	if err != nil {
		return err
	}
	fmt.Fprintf(file, title, r.seed, r.options.count, r.page)
	if err := r.table(file); err != nil {
		return err
	}
	return file.Close()
}

func (r *runner) table(to io.Writer) error {
	w := &strings.Builder{}
	fmt.Fprintf(w, "%d mutants, drawn by seed %d. %s\n", len(r.drawn), r.seed, r.effort())
	all, names := map[string]*tally{}, map[string][]string{}
	ways := map[string]int{}
	for _, s := range r.drawn {
		for _, row := range [][2]string{{"", "all"}, {"package", s.Package}, {"operator", s.Operator}} {
			key := row[0] + " " + row[1]
			if all[key] == nil {
				all[key] = &tally{}
				names[row[0]] = append(names[row[0]], row[1])
			}
			r.count(all[key], s)
		}
		if known := r.results[s.Name]; known.Found != "" {
			ways[known.How]++
		}
	}
	for _, kind := range []string{"package", "operator"} {
		fmt.Fprintf(w, "\n| %s | drawn | equivalent | found by search | by the explorer | slower in an experiment | costlier | by a deviation | score | schedules: median | most |\n", kind)
		w.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
		slices.Sort(names[kind])
		for _, name := range names[kind] {
			row(w, name, all[kind+" "+name])
		}
		row(w, "**all**", all[" all"])
	}
	w.WriteString("\nWhat they were found by:")
	var how []string
	for _, h := range slices.SortedFunc(maps.Keys(ways), func(a, b string) int {
		return cmp.Or(ways[b]-ways[a], strings.Compare(a, b))
	}) {
		how = append(how, fmt.Sprintf(" %s %d", h, ways[h]))
	}
	w.WriteString(strings.Join(how, ","))
	w.WriteString(".\n")
	for _, line := range r.scopes.leftOut() {
		fmt.Fprintf(w, "Not explored, since the code without a mutant goes wrong there: %s.\n", line)
	}
	if r.tests {
		fmt.Fprintf(w, "The tests of their packages alone find %d.\n", all[" all"].tests)
	}
	r.survivors(w)
	_, err := io.WriteString(to, w.String())
	return err
}

// effort says within how many schedules mutants were found, and how far the others were searched for, without
// those that are said to be equivalent.
func (r *runner) effort() string {
	var budgets []int
	found, lives := map[int]int{}, map[int]int{} // by the budget that was used up
	for _, s := range r.drawn {
		known := r.results[s.Name]
		count := found
		if known.Found == "" && r.claimed(s) {
			continue
		} else if known.Found == "" {
			count = lives
		} else if known.Found != "search" {
			continue
		}
		count[known.Searched]++
		budgets = append(budgets, known.Searched)
	}
	slices.Sort(budgets)
	var text []string
	for _, b := range slices.Compact(budgets) {
		text = append(text, fmt.Sprintf("%d were found, and %d given up, with up to %d schedules", found[b], lives[b], b))
	}
	return strings.Join(text, "; ") + "."
}

func row(w io.Writer, name string, t *tally) {
	fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d | %d | %d | %s | %s |\n",
		name, t.drawn, t.claimed, t.search, t.explorer, t.experiment, t.costs, t.deviation, t.score(), t.typical())
}

// survivors lists those that were not found, with what people said of them.
func (r *runner) survivors(w io.Writer) {
	for _, claimed := range []bool{false, true} {
		title := "Not found"
		if claimed {
			title = "Equivalent"
		}
		fmt.Fprintf(w, "\n## %s\n", title)
		for _, s := range r.drawn {
			j, judged := r.judgement(s)
			if r.results[s.Name].Found != "" || (judged && j.Equivalent) != claimed {
				continue
			}
			why := j.Why
			if !judged {
				why = "Nobody has said yet what it is."
			}
			fmt.Fprintf(w, "\n`%s` (%s): %s\n\n```diff\n%s```\n", s.Name, s.Hash(), why, s.Diff())
		}
	}
}
