package layout

import (
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxLines keeps a file short enough to be read in one go.
const maxLines = 500

func TestFilesAreShort(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		if s.lines > maxLines && !ast.IsGenerated(s.file) {
			t.Errorf("%s has %d lines; split it, the limit is %d", s.path, s.lines, maxLines)
		}
	}
}

// areas says what each area may import of the project; areas that are not listed may import anything but cmd.
// Dependencies point one way: register <- view <- protocol <- {runtime, simulator} <- listener <- cmd.
// The first entry that fits a file counts, and every area may import what is below itself.
var areas = []struct {
	area string
	may  []string
}{
	{"replica/register/wire", []string{"api/register", "replica/register"}},
	{"replica/register", nil},
	{"replica/proof", []string{"replica/register"}},
	{"replica/view/wire", []string{"api/admin", "replica/view"}},
	{"replica/view", []string{"replica/register"}},
	{"replica/membership", []string{"replica/view"}},
	{"replica/capability", []string{"replica/register", "replica/view"}},
	{"replica/profile", nil},
	{"replica/protocol/curpraft",
		[]string{
			"api/peer", "replica/register", "replica/view", "replica/capability", "replica/protocol", "witness/cache",
		}},
	{"replica/protocol/script",
		[]string{
			"api/peer", "replica/register", "replica/view", "replica/membership", "replica/protocol", "replica/history",
		}},
	{"replica/protocol", []string{"api/peer", "api/witness", "replica/register", "replica/view", "replica/capability"}},
	{"replica/history/precedence", nil},
	{"replica/history", []string{"replica/register", "replica/view"}},
	{"replica/durable", nil},
	{"replica/configfile", nil},
	{"replica/storage", []string{"replica/register", "replica/view", "replica/protocol", "replica/durable"}},
	{"replica/transport", []string{"api/peer", "api/witness", "replica/register", "replica/view", "replica/protocol"}},
	{"replica/simulator/kernel", nil},
	{"replica/simulator/faults", nil},
	{"replica/simulator/machine", []string{"replica/protocol"}},
	{"replica/simulator/diagram", []string{
		"api/peer", "replica/register", "replica/view", "replica/protocol/catalog", "replica/protocol/notation", "replica/simulator/kernel",
	}},
	{"replica/simulator/schedule", []string{
		"replica/register", "replica/view", "replica/membership", "replica/protocol", "replica/profile", "replica/simulator/kernel",
		"replica/simulator/faults",
	}},
	{"replica/simulator/directed", []string{
		"replica/register", "replica/membership", "replica/protocol", "replica/profile", "replica/simulator/kernel",
		"replica/simulator/faults", "replica/simulator/schedule",
	}},
	{"replica/simulator/coverage", []string{"replica/register", "replica/simulator/schedule"}},
	{"replica/simulator/field", nil},
	{"replica/simulator/check", []string{
		"api/peer", "api/witness", "replica/register", "replica/view", "replica/membership", "replica/protocol", "replica/history",
		"replica/simulator/diagram", "replica/simulator/schedule", "replica/simulator/field", "witness/core",
	}},
	{"replica/simulator/invariant", []string{
		"api/peer", "replica/register", "replica/view", "replica/protocol", "replica/protocol/base", "replica/protocol/wire",
		"replica/simulator/field",
	}},
	{"replica/simulator/network", []string{
		"api/peer", "replica/simulator/kernel", "replica/simulator/diagram", "replica/simulator/faults", "replica/simulator/schedule",
		"replica/simulator/coverage",
	}},
	{"replica/simulator/clients", []string{
		"replica/register", "replica/history", "replica/proof", "replica/simulator/kernel", "replica/simulator/diagram",
		"replica/simulator/network", "replica/simulator/schedule",
	}},
	{"replica/simulator/cluster", []string{
		"api/peer", "replica/intake", "api/witness", "replica/register", "replica/view", "replica/membership",
		"replica/protocol", "witness/core",
		"replica/simulator/kernel", "replica/simulator/machine", "replica/simulator/diagram", "replica/simulator/faults",
		"replica/simulator/schedule", "replica/simulator/check", "replica/simulator/network", "replica/simulator/clients",
		"replica/simulator/coverage", "replica/simulator/invariant", "replica/simulator/field",
	}},
	{"replica/simulator/members", []string{
		"api/peer", "api/witness", "replica/register", "replica/view", "replica/membership", "replica/protocol", "replica/history",
		"replica/simulator/kernel", "replica/simulator/diagram", "replica/simulator/faults", "replica/simulator/schedule",
		"replica/simulator/check", "replica/simulator/cluster",
	}},
	{"replica/simulator", []string{
		"api/peer", "replica/intake", "api/witness", "api/v1alpha1", "replica/register", "replica/view", "replica/membership",
		"replica/capability",
		"replica/protocol", "replica/profile", "replica/history", "witness", "workload",
	}},
	{"replica/explorer", []string{
		"api/peer", "api/witness", "replica/register", "replica/view", "replica/membership", "replica/protocol",
		"replica/history", "witness/core", "replica/simulator/kernel", "replica/simulator/diagram",
	}},
	{"replica/intake", nil},
	{"replica/runtime", []string{
		"api/peer", "replica/intake", "replica/register", "replica/view", "replica/capability", "replica/protocol",
		"replica/history",
		"replica/storage", "replica/transport",
	}},
	{"replica/listener/operation", []string{"replica/register", "replica/view", "replica/capability", "replica/proof"}},
	{"replica/listener/redis/resp", nil},
	{"replica/listener/redis", []string{"replica/listener/operation", "replica/register"}},
	{"replica/listener/grpc",
		[]string{"api/register", "replica/listener/operation", "replica/register", "replica/transport/codec"}},
	{"replica/listener/http", nil},
	{"api", []string{"replica/register", "replica/view", "replica/capability", "replica/profile"}},
	{"client/compose/propagate", []string{"client/compose"}},
	{"client/compose", nil},
	{"client", []string{"api/register", "replica/register", "replica/transport/codec"}},
	{"workload/bench", []string{"api/register", "replica/register", "replica/transport/codec"}},
	{"workload/checked", []string{"client", "replica/register", "replica/history", "replica/capability", "workload"}},
	{"workload", []string{"client", "replica/register", "replica/history"}},
	{"plugin", []string{
		"api", "client", "config/chaos", "controllers/build", "replica/register", "replica/history",
		"replica/view", "workload",
	}},
	{"config/chaos", nil},
	{"controllers/world", []string{"api", "replica/view", "replica/membership"}},
	{"controllers/build",
		[]string{"api", "controllers/world", "replica/view", "replica/membership", "replica/capability"}},
	{"controllers/chaosmesh", []string{"api", "controllers/world", "controllers/build"}},
	// A rule needs facts, the status needs both, and nothing goes the other way.
	{"controllers/decide/message", []string{"api/v1alpha1", "controllers/world", "controllers/build", "replica/view"}},
	{"controllers/decide/facts", []string{
		"api/v1alpha1", "controllers/world", "controllers/build", "controllers/decide/message", "replica/view", "replica/membership",
		"replica/capability",
	}},
	{"controllers/decide/emulation", []string{
		"api/v1alpha1", "controllers/world", "controllers/chaosmesh", "controllers/decide/message", "controllers/decide/facts",
	}},
	{"controllers/decide/views", []string{
		"api/v1alpha1", "controllers/world", "controllers/decide/message", "controllers/decide/facts", "replica/view", "replica/membership",
	}},
	{"controllers/decide/recovery", []string{
		"api/v1alpha1", "controllers/world", "controllers/decide/message", "controllers/decide/facts", "controllers/decide/views",
		"replica/view", "replica/membership",
	}},
	{"controllers/decide/rules", []string{
		"api/v1alpha1", "controllers/world", "controllers/build", "controllers/decide/message", "controllers/decide/facts",
		"controllers/decide/views", "controllers/decide/recovery", "replica/view", "replica/membership",
	}},
	{"controllers/decide", []string{
		"api", "controllers/world", "controllers/build", "controllers/chaosmesh", "replica/view", "replica/membership",
		"replica/capability",
	}},
	{"controllers/members",
		[]string{"api/admin", "controllers/world", "replica/view", "replica/membership", "witness/manage"}},
	// What is whose is the builders'.
	{"controllers/apply", []string{"api/v1alpha1", "controllers/chaosmesh", "controllers/build", "controllers/world"}},
	{"controllers",
		[]string{
			"api", "replica/proof", "replica/register", "replica/view", "replica/membership", "replica/capability",
		}},
	{"dev/record", []string{"api", "replica/view", "replica/membership"}},
	{"dev/decide", []string{"dev/record", "replica/view", "replica/membership"}},
	{"dev/process", nil},
	{"witness/cache", nil},
	{"witness/core", []string{"api/witness", "witness/cache"}},
	{"witness/disk", []string{"replica/durable"}},
	{"witness/manage", []string{"api/witness", "replica/view", "replica/membership", "replica/transport/codec"}},
	{"witness", []string{
		"api/witness", "replica/register", "replica/transport/codec", "replica/configfile", "replica/listener/http",
	}},
}

func TestDependenciesPointOneWay(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		if s.isTest() {
			continue // a test may stand above what it tests
		}
		for _, path := range imports(s) {
			target, ours := strings.CutPrefix(path, module+"/")
			if ours && !allowed(s, target) {
				t.Errorf("%s imports %s: a file of %s must not depend on it", s.path, target, s.area)
			}
		}
	}
}

func allowed(s source, target string) bool {
	for _, r := range areas {
		if s.in(r.area) {
			return inside(target, r.area) ||
				slices.ContainsFunc(r.may, func(may string) bool { return inside(target, may) })
		}
	}
	return !inside(target, "cmd") || s.in("cmd")
}

// pure lists the areas that hold deterministic state machines and their vocabulary.
var pure = []string{"replica/register", "replica/view", "replica/membership", "replica/capability", "replica/protocol",
	"controllers/world", "controllers/build", "controllers/chaosmesh", "controllers/decide",
	"witness/cache", "witness/core", "dev/decide",
	"replica/simulator/machine", "replica/simulator/faults", "replica/simulator/schedule", "replica/simulator/diagram",
	"replica/simulator/network", "replica/simulator/clients", "replica/simulator/cluster", "replica/simulator/members",
	"replica/simulator/injection", "replica/simulator/coverage", "replica/simulator/invariant", "replica/simulator/field",
	"replica/simulator/directed",
}

// impure lists what lets a package see the machine, the time, chance or another goroutine.
var impure = []string{
	"context", "crypto/rand", "io/fs", "io/ioutil", "log", "math/rand", "net", "os", "runtime", "sync", "syscall",
	"golang.org/x/sys", "google.golang.org/grpc",
}

// timeVocabulary lists what pure packages may use of package time: names of durations, not readings of clocks.
var timeVocabulary = []string{
	"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour",
	"ParseDuration",
	"Time", // of a snapshot that was taken elsewhere; only functions read clocks
}

func isPure(s source) bool {
	return !s.isTest() && slices.ContainsFunc(pure, s.in)
}

func TestPurePackagesSeeNoWorld(t *testing.T) {
	fset, all := sources(t)
	for _, s := range all {
		if !isPure(s) {
			continue
		}
		for _, path := range imports(s) {
			if slices.ContainsFunc(impure, func(i string) bool { return inside(path, i) }) {
				t.Errorf("%s imports %s: protocols and their vocabulary are deterministic", s.path, path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
				t.Errorf("%s: protocols and their vocabulary know no goroutines and channels", fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && !slices.Contains(timeVocabulary, n.Sel.Name) {
					t.Errorf("%s: time.%s reads a clock; time is handed in by Tick", fset.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// The race detector is not run on pure areas, which costs minutes and finds nothing; on all others it is.
func TestTheRaceDetectorLeavesOutPureRoomsOnly(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(makefile), "\nPURE := ")
	list, _, _ = strings.Cut(strings.ReplaceAll(list, "\\\n", " "), "\n")
	if areas := strings.Fields(list); !found || !slices.Equal(areas, pure) {
		t.Errorf("the Makefile leaves out %v, and the pure areas are %v", areas, pure)
	}
}

func imports(s source) []string {
	var paths []string
	for _, spec := range s.file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}
