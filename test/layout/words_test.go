package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// glossary is the page with one term for each idea, and the words that are not used.
const glossary = "docs/glossary.md"

// unused reads the words of the glossary's last section.
func unused(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, glossary))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## Words that are not used\n")
	if !found {
		t.Fatalf("%s lists no words that are not used", glossary)
	}
	var words []string
	for _, m := range regexp.MustCompile("`([a-z ]+)`").FindAllStringSubmatch(section, -1) {
		words = append(words, m[1])
	}
	if len(words) == 0 {
		t.Fatalf("%s lists no words that are not used", glossary)
	}
	return words
}

// A word of the authors' own, which the glossary has another one for, does not come back. Identifiers count by their
// parts: `openDoor` has the word door.
func TestEachIdeaHasOneTerm(t *testing.T) {
	_, all := sources(t)
	boundary := regexp.MustCompile(`([a-z])([A-Z])`)
	plain := func(text string) string { return strings.ToLower(boundary.ReplaceAllString(text, "$1 $2")) }
	texts := map[string]string{}
	for _, s := range all {
		raw, err := os.ReadFile(filepath.Join(root, s.path))
		if err != nil {
			t.Fatal(err)
		}
		texts[s.path] = plain(string(raw))
	}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md", "config/samples/*.yaml", "Makefile"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(pages) == 0 {
			t.Fatalf("no page %s: %v", pattern, err)
		}
		for _, page := range pages {
			raw, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if name, _ := filepath.Rel(root, page); name != glossary {
				texts[name] = plain(string(raw))
			}
		}
	}
	for _, word := range unused(t) {
		whole := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `s?\b`)
		for name, text := range texts { // the order of what is reported is irrelevant
			if name != "test/layout/words_test.go" && whole.MatchString(text) {
				t.Errorf("%s has the word %q; %s has the term for it", name, word, glossary)
			}
		}
	}
}
