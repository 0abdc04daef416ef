package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ (.+)$`)
	codePattern    = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors are the headings of a page as links name them.
func anchors(text string) (all []string) {
	for _, found := range headingPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(text, ""), -1) {
		kept := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', r >= 'a' && r <= 'z', r >= '0' && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(found[1]))
		all = append(all, kept)
	}
	return all
}

// mistakes lists the headings that a page has twice, and the links that lead nowhere. Read gives the text of
// a file, by its path from the project's directory; a directory has none.
func mistakes(page string, read func(path string) (string, error)) (all []string) {
	text, err := read(page)
	if err != nil {
		return []string{err.Error()}
	}
	seen := map[string]bool{}
	for _, a := range anchors(text) {
		if seen[a] {
			all = append(all, "two headings are #"+a)
		}
		seen[a] = true
	}
	for _, found := range linkPattern.FindAllStringSubmatch(text, -1) {
		path, anchor, _ := strings.Cut(found[1], "#")
		if strings.Contains(path, "://") {
			continue
		}
		target := page
		if path != "" {
			target = filepath.Join(filepath.Dir(page), path)
		}
		there, err := read(target)
		if err != nil || anchor != "" && !strings.Contains(" "+strings.Join(anchors(there), " ")+" ", " "+anchor+" ") {
			all = append(all, "the link "+found[1]+" leads nowhere")
		}
	}
	return all
}

func TestPagesAreWhole(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	read := func(path string) (string, error) {
		path = filepath.Join(root, path)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return "", err
		}
		text, err := os.ReadFile(path)
		return string(text), err
	}
	within, err := filepath.Glob(root + "/docs/*/*.md")
	if err != nil || len(within) == 0 {
		t.Fatalf("no pages in folders: %v", err)
	}
	for _, page := range slices.Concat(pages, within, []string{root + "/README.md"}) {
		page, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, mistake := range mistakes(page, read) {
			t.Errorf("%s: %s", page, mistake)
		}
	}
}

func TestMistakesOfPagesAreFound(t *testing.T) {
	files := map[string]string{
		"docs/a.md": "# A\n## B c, d!\n```sh\n# B c d\n```\n[1](b.md) [2](b.md#two) [3](#b-c-d) [4](https://x/y) " +
			"[5](../c)\n",
		"docs/b.md": "# One\n## Two\n## Two\n[1](c.md) [2](a.md#z) [3](#one)\n",
		"c":         "",
	}
	read := func(path string) (string, error) {
		text, ok := files[path]
		if !ok {
			return "", os.ErrNotExist
		}
		return text, nil
	}
	if got := mistakes("docs/a.md", read); len(got) != 0 {
		t.Errorf("a whole page: %q", got)
	}
	want := "two headings are #two, the link c.md leads nowhere, the link a.md#z leads nowhere"
	if got := strings.Join(mistakes("docs/b.md", read), ", "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
