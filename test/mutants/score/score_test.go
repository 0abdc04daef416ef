package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/test/mutants"
	"github.com/georegister/georegister/test/mutants/generate"
)

// What a program prints when it ends tells what was found, and after how many schedules.
func TestVerdicts(t *testing.T) {
	for text, want := range map[string]verdict{
		"exit 0": {schedules: 50},
		"echo georegister: seed 103: stuck: nobody answers >&2; exit 1":                      {"stuck", "nobody answers", 4, 103},
		"echo panic: nil map; printf '\\tpanic: seed 101: nil map\\n\\ngoroutine 1'; exit 2": {"panic", "nil map", 2, 101},
		"echo fatal error: stack overflow >&2; exit 2":                                       {"panic", "stack overflow", 50, 0},
	} {
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		got, err := search(context.Background(), program, "none", hunt{}, 100, 50)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho unknown flag; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := search(context.Background(), program, "none", hunt{}, 1, 50); err == nil {
		t.Errorf("a program that is used wrongly found %+v", got)
	}
}

// What goes wrong without a mutant, too, is not found by the search for it: the control says so, with that one schedule.
func TestControl(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	text := "#!/bin/sh\n[ \"$4\" = 7 ] && [ \"$6\" = 1 ] && { echo georegister: seed 7: stuck: it always is >&2; exit 1; }\nexit 0\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	found := verdict{how: "stuck", schedules: 7, seed: 7}
	if err := control(context.Background(), program, hunt{}, 1, found); err == nil {
		t.Error("the code goes wrong without a mutant, and the control is content")
	}
	found.seed = 8
	if err := control(context.Background(), program, hunt{}, 1, found); err != nil {
		t.Error(err)
	}
}

// Nor is what the explorer finds, in a scope in which it finds that without a mutant.
func TestAScopeThatIsWrongWithoutAMutantSaysNothing(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	write := func(text string) {
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const panics = "echo 'panic: of the explorer' >&2; exit 2"
	for text, want := range map[string]string{
		panics: "",
		"[ -n \"$GEOREGISTER_MUTANT\" ] && { " + panics + "; }\nprintf '{\n\"verdict\": \"right\"}\n'": "explorer",
	} {
		write(text)
		known, all := result{Name: "a mutant"}, scopes{}
		if err := all.explore(context.Background(), program, "replica/protocol/abd", &known); err != nil {
			t.Fatal(err)
		}
		if known.Found != want || (len(all.leftOut()) > 0) != (want == "") {
			t.Errorf("%s: found by %q, want %q; left out: %v", text, known.Found, want, all.leftOut())
		}
	}
}

// An experiment finds a mutant that is slower in it than the code without one, and compares nothing where there is none.
func TestExperimentsFindWhatIsSlower(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	const says = `printf '{"verdict":"linearizable","operations":{"read":{"overall":{"count":9,"p50_ms":%s,"p90_ms":%s,"round_trips":%s}}}}' `
	for text, want := range map[string]string{
		says + "100 200 1": "", says + "105 205 1.1": "", says + "120 205 1": "", says + "120 230 1": "slower",
		says + "100 200 1.5": "slower", "echo panic: nil map >&2; exit 2": "verdict",
	} {
		script := "#!/bin/sh\n[ -n \"$GEOREGISTER_MUTANT\" ] || { " + says + "100 200 1; exit; }\n" + text + "\n"
		if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		known, all := result{Name: "a mutant"}, measurements{}
		if err := all.measure(context.Background(), program, "replica/protocol/abd", &known); err != nil || known.How != want {
			t.Errorf("%s: found by %q, %v, want %q", text, known.How, err, want)
		}
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no such operation >&2; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	known, all := result{Name: "a mutant"}, measurements{}
	if err := all.measure(context.Background(), program, "replica/protocol/abd", &known); err != nil || known.Found != "" {
		t.Errorf("where there is no such experiment, it found %+v, %v", known, err)
	}
}

// Every package whose code is mutated is searched, with protocols that there are, and no search is larger than it may
// be.
func TestEveryPackageIsHunted(t *testing.T) {
	for _, p := range generate.Packages {
		hunts := huntsOf(p)
		if len(hunts) == 0 {
			t.Errorf("%s: nothing is searched", p)
		}
		for _, budget := range []int{300, 3000, 20000} {
			sum := 0
			for i, n := range shares(hunts, budget) {
				sum += n * hunts[i].cost
			}
			if sum > budget || sum < budget*3/4 {
				t.Errorf("%s: %d schedules of %d are searched", p, sum, budget)
			}
		}
	}
	var names []string
	for _, v := range catalog.Variants() {
		names = append(names, v.Name)
	}
	for p, protocols := range protocolsOf { // the order of what is reported is irrelevant
		for _, name := range protocols {
			if !slices.Contains(names, name) {
				t.Errorf("%s: there is no protocol %s", p, name)
			}
		}
	}
}

// What costs a quarter more with a mutant than without is found, and what costs as much, or a little more, is not.
func TestCostlier(t *testing.T) {
	was := deviated{
		Plain: "operations", Kind: "a message is lost", Runs: 10, Slower: 800 * time.Millisecond, Slowest: 200 * time.Millisecond,
		Unready: time.Second, Longest: time.Second, Behind: time.Second, Furthest: time.Second, Messages: 40, Most: 8,
	}
	for _, c := range []struct {
		change func(*deviated)
		found  bool
	}{
		{func(*deviated) {}, false},
		{func(d *deviated) { d.Plain = "another one" }, false},
		{func(d *deviated) { d.Slowest += 40 * time.Millisecond }, false},
		{func(d *deviated) { d.Slowest *= 2 }, true},
		{func(d *deviated) { d.Slower *= 2 }, true},
		{func(d *deviated) { d.Longest *= 2 }, true},
		{func(d *deviated) { d.Unready *= 2 }, true},
		{func(d *deviated) { d.Furthest *= 2 }, true},
		{func(d *deviated) { d.Behind *= 2 }, true},
		{func(d *deviated) { d.Messages, d.Most = -40, 4 }, false},
		{func(d *deviated) { d.Messages *= 2 }, true},
		{func(d *deviated) { d.Most = 40 }, true},
	} {
		is := was
		c.change(&is)
		if found := costlier([]deviated{was}, []deviated{is}); len(found) > 0 != c.found {
			t.Errorf("%+v: %v", is, found)
		}
	}
}

// A plain run that costs a quarter more with a mutant is found, and one that goes the same way if it costs a little
// more.
func TestCostlierRuns(t *testing.T) {
	was := simulator.Cost{
		Plain: "operations", Updates: 4 * time.Second, Unready: time.Second, Messages: 400, Bytes: 9000, Batches: 90,
		Held: 5000,
	}
	for _, c := range []struct {
		what   string
		change func(*simulator.Cost)
		found  bool
	}{
		{"as much", func(*simulator.Cost) {}, false},
		{"another one", func(c *simulator.Cost) { c.Plain, c.Held = "another one", 9000 }, false},
		{"more memory, and the same way", func(c *simulator.Cost) { c.Held += 100 }, true},
		{"hardly more memory", func(c *simulator.Cost) { c.Held += 40 }, false},
		{"more memory, and another way", func(c *simulator.Cost) { c.Held += 100; c.Messages-- }, false},
		{"much more memory", func(c *simulator.Cost) { c.Held *= 2; c.Messages-- }, true},
		{"longer, and another way", func(c *simulator.Cost) { c.Unready += 200 * time.Millisecond; c.Messages++ }, false},
		{"much longer", func(c *simulator.Cost) { c.Unready *= 2; c.Messages++ }, true},
		{"a few messages", func(c *simulator.Cost) { c.Messages += 110 }, false},
		{"messages", func(c *simulator.Cost) { c.Messages += 120 }, true},
	} {
		is := was
		c.change(&is)
		if found := costlierRuns([]simulator.Cost{was}, []simulator.Cost{is}); len(found) > 0 != c.found {
			t.Errorf("%s: %v", c.what, found)
		}
	}
}

// Nor do experiments that go the same way differ by chance.
func TestCostsOfExperiments(t *testing.T) {
	was := measured{costs: []float64{10, 2, 500, 60, 700}}
	for _, c := range []struct {
		costs []float64
		found bool
	}{
		{was.costs, false},
		{[]float64{10, 2, 500, 60, 720}, true},
		{[]float64{10, 2, 504, 60, 700}, false},
		{[]float64{9, 2, 540, 64, 760}, false},
		{[]float64{9, 2, 560, 60, 700}, true},
		{[]float64{12, 2, 500, 60, 700}, true},
		{nil, false},
	} {
		if how, why := compare(was, measured{costs: c.costs}); (how != "") != c.found {
			t.Errorf("%v: %s, %s", c.costs, how, why)
		}
	}
}

// Schedules that cost more with a mutant, nearly each of those that differ, tell of it; those that cost more as often as
// less do not, nor those that cost hardly more.
func TestMoreCosts(t *testing.T) {
	var was []simulator.Cost
	for seed := range uint64(100) {
		was = append(was, simulator.Cost{Seed: seed + 1, Messages: 1000, Reads: time.Second})
	}
	for _, c := range []struct {
		what   string
		change func(i int, c *simulator.Cost)
		found  bool
	}{
		{"as much", func(int, *simulator.Cost) {}, false},
		{"each", func(_ int, c *simulator.Cost) { c.Messages += 10 }, true},
		{"each, hardly", func(_ int, c *simulator.Cost) { c.Messages++ }, false},
		{"each, less", func(_ int, c *simulator.Cost) { c.Messages -= 10 }, false},
		{"some", func(i int, c *simulator.Cost) { c.Reads += time.Duration(i%3/2) * time.Second }, true},
		{"few", func(i int, c *simulator.Cost) { c.Reads += time.Duration(i%5/4) * time.Second }, false},
		{"more as often as less", func(i int, c *simulator.Cost) { c.Messages += uint64(i % 2 * 1000); c.Messages -= 400 }, false},
		{"others", func(_ int, c *simulator.Cost) { c.Seed += 1000; c.Messages *= 2 }, false},
	} {
		is := slices.Clone(was)
		for i := range is {
			c.change(i, &is[i])
		}
		var both comparison
		both.add(was[:50], is[:50])
		both.add(was[50:], is[50:])
		if why := both.verdict(overall); (why != "") != c.found {
			t.Errorf("%s: %q", c.what, why)
		}
	}
}

// An explorer that has no memory left says nothing of a mutant, as one that does not end; one that panics does.
func TestAnExplorerWithoutMemoryFindsNothing(t *testing.T) {
	for out, want := range map[string]string{
		"fatal error: runtime: out of memory\n":                        "",
		"fatal error: runtime: cannot allocate memory\n":               "",
		"panic: runtime error: index out of range [1] with length 1\n": "panic",
	} {
		if v, ended := crashed(out); !ended || v.how != want {
			t.Errorf("%q: found %q, ended %v", out, v.how, ended)
		}
	}
	if _, ended := crashed("{\n"); ended {
		t.Error("an explorer that did not crash counts as ended")
	}
}

// Flags that mean nothing are refused, and so is a word that is no flag: those after it would not be read.
func TestFlagsAreRefused(t *testing.T) {
	whole := options{count: 1, schedules: 1}
	if err := whole.check(nil); err != nil {
		t.Error(err)
	}
	for want, o := range map[string]options{
		"-count: 0":             {schedules: 1},
		"-schedules: 0":         {count: 1},
		"-schedules: 100000000": {count: 1, schedules: 100_000_000},
		"-parallel: -1":         {count: 1, schedules: 1, parallel: -1},
		"-deviations: -1":       {count: 1, schedules: 1, deviations: -1},
		"-explore: -1s":         {count: 1, schedules: 1, explore: -time.Second},
	} {
		if err := o.check(nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := whole.check([]string{"list", "-only", "gus"}); err == nil || !strings.Contains(err.Error(), `"list"`) {
		t.Error(err)
	}
	none := options{count: 1, schedules: 1, seed: 1, only: "^of nothing$"}
	if err := none.run(nil); err == nil || !strings.HasPrefix(err.Error(), "-only: ") {
		t.Errorf("%v, want that none matches", err)
	}
}

// What a killed run has left is gone on from: a line that is cut short costs no other one.
func TestResultsAreGoneOnFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results")
	var drawn []*generate.Site
	for _, name := range []string{"a", "b", "c"} {
		drawn = append(drawn, &generate.Site{Mutant: mutants.Mutant{Name: name}})
	}
	text := fmt.Sprintf(`{"name":"a","hash":%q,"found":"search"}`, drawn[0].Hash()) + "\n" +
		`{"name":"b","hash":"of other code","found":"search"}` + "\n" + `{"na`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	reopened := func() *runner {
		r := &runner{options: options{out: path}, drawn: drawn}
		if err := r.open(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := reopened()
	if a, b := r.results["a"], r.results["b"]; a.Found != "search" || b.Found != "" {
		t.Errorf("%+v, %+v", a, b)
	}
	other := &runner{options: options{out: path}, drawn: drawn}
	if err := other.open(); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("two runs write to one file: %v", err)
	}
	if err := r.note(result{Name: "c", Hash: drawn[2].Hash(), Searched: 7}); err != nil {
		t.Fatal(err)
	}
	if err := r.file.Close(); err != nil {
		t.Fatal(err)
	}
	if r := reopened(); r.results["c"].Searched != 7 {
		t.Errorf("after a line that was cut short: %+v", r.results["c"])
	}
}

// A file of something else is not written to, and one that can't be written is refused before anything runs.
func TestFilesOfResultsAreRefused(t *testing.T) {
	folder := t.TempDir()
	page := filepath.Join(folder, "page.md")
	if err := os.WriteFile(page, []byte("# A page\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		out, page, want string
	}{
		{page, "", "-out: " + page + " has something else"},
		{folder, "", "-out: open"},
		{filepath.Join(folder, "no", "file"), "", "-out: open"},
		{filepath.Join(folder, "out"), folder, "-page: open"},
		{filepath.Join(folder, "out"), filepath.Join(folder, "no", "page"), "-page: open"},
	} {
		r := runner{options: options{out: c.out, page: c.page}}
		if err := r.open(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c, err, c.want)
		}
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != "# A page\n" {
		t.Errorf("%q, %v", text, err)
	}
	r := runner{options: options{out: filepath.Join(folder, "out"), page: filepath.Join(folder, "new.md")}}
	if err := r.open(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.page); !os.IsNotExist(err) {
		t.Errorf("a page without a table is there: %v", err)
	}
}

// Families are of few protocols of a package, and of as many members as each needs.
func TestFamilies(t *testing.T) {
	for folder, want := range map[string][]string{ // order is irrelevant
		"replica/protocol/gus":  {"--protocol gus --faults", "--protocol gus-relaxed --faults", "--sites 5", "--sites 7"},
		"replica/protocol/raft": {"--protocol raft --faults plain,", "--protocol curpraft --faults plain,"},
	} {
		all := familiesOf(folder)
		if len(all) != playedProtocols*len(families) {
			t.Errorf("%s: %d families", folder, len(all))
		}
		for _, text := range want {
			if !slices.ContainsFunc(all, func(h hunt) bool { return strings.Contains(strings.Join(h.arguments, " "), text) }) {
				t.Errorf("%s: no %q in %v", folder, text, all)
			}
		}
	}
}
