package layout

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// required matches a direct dependency in go.mod.
var required = regexp.MustCompile(`(?m)^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`)

func TestDependenciesAreExplained(t *testing.T) {
	module, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(root + "/docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	direct := required.FindAllStringSubmatch(string(module), -1)
	if len(direct) == 0 {
		t.Fatal("go.mod names no direct dependency")
	}
	for _, d := range direct {
		if !strings.Contains(string(document), "`"+d[1]+"`") {
			t.Errorf("docs/dependencies.md does not say why %s is here", d[1])
		}
	}
}
