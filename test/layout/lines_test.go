package layout

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxColumns lets two files stand beside each other. A tab counts as four.
const maxColumns = 120

// narrow are the areas whose lines are held to maxColumns. The others are not there yet: whoever wraps the lines of one
// adds it here.
var narrow = []string{
	"api", "client", "cmd", "config", "controllers/apply",
	"controllers/build", "controllers/chaosmesh", "controllers/decide/emulation", "controllers/decide/facts",
	"controllers/decide/message", "controllers/decide/status", "controllers/decide/views", "controllers/members",
	"controllers/world", "dev", "hack", "plugin", "replica/configfile",
	"replica/durable", "replica/explorer", "replica/history", "replica/listener", "replica/membership", "replica/meter",
	"replica/node", "replica/profile", "replica/proof", "replica/protocol/abd", "replica/protocol/catalog",
	"replica/protocol/epaxos", "replica/protocol/quorum", "replica/protocol/slab", "replica/protocol/wire",
	"replica/register",
	"replica/storage", "replica/transport", "replica/view", "test/apiserver", "test/bench", "test/chart",
	"test/clients", "test/cluster", "test/e2e", "test/listenertest", "workload",
	"replica/protocol/curpraft", "replica/protocol/position", "replica/protocol/session", "witness",
}

// Lines that can't be wrapped may be longer: those with a part of a raw string, such as the tag of a field, and
// comments for programs, such as the markers from which the CRD is generated.
func TestLinesAreShort(t *testing.T) {
	fset, all := sources(t)
	for _, s := range all {
		within := func(area string) bool { return strings.HasPrefix(s.path, area+"/") }
		if ast.IsGenerated(s.file) || !slices.ContainsFunc(narrow, within) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, s.path))
		if err != nil {
			t.Fatal(err)
		}
		raw := map[int]bool{} // lines with a part of a raw string
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && lit.Value[0] == '`' {
				for line := fset.Position(lit.Pos()).Line; line <= fset.Position(lit.End()).Line; line++ {
					raw[line] = true
				}
			}
			return true
		})
		for i, line := range strings.Split(string(text), "\n") {
			comment, is := strings.CutPrefix(strings.TrimLeft(line, "\t"), "//")
			marker := is && (strings.HasPrefix(comment, " +") || !strings.HasPrefix(comment, " "))
			if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > maxColumns && !raw[i+1] && !marker {
				t.Errorf("%s:%d has %d columns; wrap it, the limit is %d", s.path, i+1, n, maxColumns)
			}
		}
	}
}
