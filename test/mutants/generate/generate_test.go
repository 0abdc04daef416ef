package generate

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/test/mutants"
)

const example = "testdata/example"

func load(t *testing.T) (*Module, []*Site) {
	t.Helper()
	m, err := Load(example, []string{"part"})
	if err != nil {
		t.Fatal(err)
	}
	return m, m.Sites()
}

// short is a diff without spaces at the beginning of lines.
func short(s *Site) string {
	var lines []string
	for line := range strings.Lines(s.Diff()) {
		if line[0] != ' ' {
			lines = append(lines, line[:1]+strings.TrimSpace(line[1:]))
		}
	}
	return strings.Join(lines, "\n")
}

// Each operator has the sites in the example that it is to have, and no others.
func TestOperatorsHaveTheirSites(t *testing.T) {
	want := map[string][]string{
		"record-field": {
			"encode#1 +return &peerv1.ThingRecord{Part: &peerv1.Part{Value: m.value}}",
			"encode#2 +return &peerv1.ThingRecord{Ballot: m.promised.number}",
			"encode#3 +return &peerv1.ThingRecord{Ballot: m.promised.number, Part: &peerv1.Part{}}",
			"decode#1 +m.value = r.Part.Value",
			"decode#2 +m.promised.number = r.Ballot",
		},
		"message-field":  {"promise#1 +a := &peerv1.Message{}", "promise#2 "},
		"before-durable": {"promise#1 +m.Send(a)", "safe#1 +func (m *member) safe(key []byte) bool { return true }"},
		"quorum": {
			"enough#1 +func (m *member) enough(t tally) bool { return t.answers >= m.majority()-1 }",
			"enough#2 +func (m *member) enough(t tally) bool { return t.answers >= m.majority()+1 }",
			"majority#1 +func (m *member) majority() int { return (m.members/2 + 1)-1 }",
			"majority#2 +func (m *member) majority() int { return (m.members/2 + 1)+1 }",
		},
		"comparison": {
			"less#1 +return b.number <= c.number", "less#2 +return b.proposer <= c.proposer",
			"enough#1 +func (m *member) enough(t tally) bool { return t.answers > m.majority() }",
			"later#1 +func (m *member) later(b ballot) bool { return m.promised.less(b) }",
			"either#1 +return ok && n >= 2",
		},
		"component": {
			"later#1 +func (m *member) later(b ballot) bool { return b.number >= m.promised.number }",
			"later#2 +func (m *member) later(b ballot) bool { return b.proposer >= m.promised.proposer }",
			"same#1 +func (m *member) same(b ballot) bool { return b.number == m.promised.number }",
			"same#2 +func (m *member) same(b ballot) bool { return b.proposer == m.promised.proposer }",
		},
		"guard":          {"less#1 ", "receive#1 "},
		"operand":        {"either#1 +return ok && (n > 2 || true)", "either#2 +return (ok || true) && n > 2"},
		"retransmission": {"retransmit#1 "},
		"view-state":     {"resume#1 "},
		"case-swap": {
			"receive#1 +m.Trips++ // a figure\n+m.journal.Put(nil, m.value)\n+case 2:\n+m.done = true\n+m.Took(\"done\")",
		},
		"statement": {"receive#1 ", "receive#2 "},
	}
	m, sites := load(t)
	for _, o := range operators {
		var got []string
		for _, s := range sites {
			if s.Operator != o.name || s.function.source.name != "part.go" {
				continue
			}
			if !m.Compiles(s) {
				t.Errorf("%s does not compile:\n%s", s.Name, s.Diff())
			}
			var comes []string
			for line := range strings.SplitSeq(short(s), "\n") {
				if strings.HasPrefix(line, "+") {
					comes = append(comes, line)
				}
			}
			_, place, _ := strings.Cut(s.Name, "part.go:")
			place = strings.TrimPrefix(strings.TrimPrefix(place, "member."), "ballot.")
			got = append(got, place+" "+strings.Join(comes, "\n"))
		}
		if !slices.Equal(got, want[o.name]) {
			t.Errorf("%s: the sites are\n%s\nwant\n%s", o.name, strings.Join(got, "\n"), strings.Join(want[o.name], "\n"))
		}
	}
}

// A change that keeps every promise, by what the code says, is no site, and the others have the numbers that they would
// have beside it.
func TestChangesThatKeepEveryPromiseAreNoSites(t *testing.T) {
	want := []string{
		"comparison raiseOther#1", "comparison raiseAndMore#1", "comparison raiseOrElse#1", "comparison raiseOrMake#1",
		"comparison exhausted#2",
		"comparison tooHigh#1", "comparison tooHigh#2",
		"comparison allows#2",
		"comparison count#2", "comparison count#3",
		"guard tooHigh#1",
		"operand raise#1", "operand raise#2", "operand exhausted#2",
		"operand tooHigh#1", "operand tooHigh#2", "operand allows#1", "operand allows#2",
		"case-swap take#2",
		"before-durable answer#2",
		"statement handOver#2",
	}
	_, sites := load(t)
	var got []string
	for _, s := range sites {
		if s.function.source.name != "keeps.go" {
			continue
		}
		_, place, _ := strings.Cut(s.Name, "keeps.go:state.")
		switch at := s.Operator + " " + place; {
		case s.Operator == "statement" && s.function.decl.Name.Name != "handOver", s.Operator == "component":
		default:
			got = append(got, at)
		}
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the sites are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestALocalThatIsLeftUnusedIsUsed(t *testing.T) {
	m, sites := load(t)
	s := Find(sites, "part/operand/part.go:member.either#1")
	if s == nil {
		t.Fatal("there is no such site")
	}
	before := short(s)
	if !m.Compiles(s) || short(s) == before {
		t.Errorf("it does not use the local:\n%s", s.Diff())
	}
	s = &Site{Operator: "test", function: s.function, at: s.at}
	wrong := s.function.text[s.at:]
	s.pieces = []piece{{s.at, s.at + strings.Index(wrong, "\n"), "return none"}}
	if !s.edit() || m.Compiles(s) {
		t.Errorf("what has an error compiles:\n%s", s.Diff())
	}
}

func TestADrawIsEvenAndTheSameEachTime(t *testing.T) {
	draw := func(seed uint64, count int) (names []string, operators map[string]int) {
		m, _ := load(t)
		operators = map[string]int{}
		for _, s := range m.Draw(seed, count) {
			names = append(names, s.Name+" "+s.Hash())
			operators[s.Operator]++
		}
		return names, operators
	}
	one, taken := draw(1, len(operators))
	if len(taken) != len(operators) {
		t.Errorf("%d mutants of one package are of %d operators: %v", len(one), len(taken), one)
	}
	if again, _ := draw(1, len(operators)); !slices.Equal(one, again) {
		t.Errorf("the same seed draws %v, then %v", one, again)
	}
	if other, _ := draw(2, len(operators)); slices.Equal(one, other) {
		t.Errorf("two seeds draw %v", one)
	}
	_, sites := load(t)
	all, _ := draw(1, 1000)
	if slices.Sort(all); len(slices.Compact(all)) != len(sites) {
		t.Errorf("of %d sites, %d are drawn once", len(sites), len(slices.Compact(all)))
	}
}

// One program has all mutants of the example.
func TestOneProgramHasAllMutants(t *testing.T) {
	m, sites := load(t)
	module, err := filepath.Abs(example)
	if err != nil {
		t.Fatal(err)
	}
	drawn := m.Draw(1, len(sites))
	overlay, err := mutants.Overlay(module, t.TempDir(), Mutants(drawn))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-overlay", overlay, "./part")
	c.Dir = module
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// A place whose lines are there several times is told by the lines around it.
func TestAnEditIsOfOnePlace(t *testing.T) {
	_, sites := load(t)
	for _, s := range sites {
		for _, e := range s.Edits {
			if n := count(s.function.text, e.Old); n != 1 {
				t.Errorf("%s: its lines are there %d times:\n%s", s.Name, n, e.Old)
			}
		}
	}
	if names := slices.Sorted(func(yield func(string) bool) {
		for _, s := range sites {
			if !yield(s.Name) {
				return
			}
		}
	}); len(slices.Compact(names)) != len(sites) {
		t.Error(fmt.Errorf("two sites have one name: %v", names))
	}
}
