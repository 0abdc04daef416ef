package equivalent

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/georegister/georegister/test/mutants/generate"
)

// A judgement is of a mutant of the code as it is.
func TestJudgedMutantsExist(t *testing.T) {
	judged, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(judged) == 0 {
		t.Skip("no mutant is judged")
	}
	code, err := generate.Load("../../..", generate.Packages)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, s := range code.Sites() {
		j, is := judged[s.Name]
		if !is {
			continue
		}
		found++
		if compiles := code.Compiles(s); !compiles || s.Hash() != j.Hash {
			t.Errorf("%s is another one by now, %s (it compiles: %t); judge it again:\n%s",
				s.Name, s.Hash(), compiles, s.Diff())
		}
		delete(judged, s.Name)
	}
	for name := range judged { // the order of what is reported is irrelevant
		t.Errorf("%s is judged, and there is no such mutant any more", name)
	}
	t.Logf("%d judgements", found)
}

func TestJudgementsAreRead(t *testing.T) {
	read := func(text string) (map[string]Judgement, error) {
		return load(fstest.MapFS{"a.txt": {Data: []byte(text)}, "README": {Data: []byte("no judgement")}})
	}
	judged, err := read("a/guard/f.go:f#1 0a equivalent\n\tOne sentence\n\tin two lines.\n\na/guard/f.go:f#2 0b missed\n\tIt lacks x.\n")
	if err != nil {
		t.Fatal(err)
	}
	one, two := judged["a/guard/f.go:f#1"], judged["a/guard/f.go:f#2"]
	if one != (Judgement{"0a", true, "One sentence in two lines."}) || two != (Judgement{"0b", false, "It lacks x."}) {
		t.Errorf("read %+v", judged)
	}
	for text, want := range map[string]string{
		"\ta sentence\n":                         "of no mutant",
		"a 0a\n\tWhy.\n":                         "is not NAME HASH",
		"a 0a perhaps\n\tWhy.\n":                 "is not NAME HASH",
		"a 0a missed\n":                          "no sentence says why",
		"a 0a missed\n\tW.\na 0b missed\n\tW.\n": "judged twice",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
