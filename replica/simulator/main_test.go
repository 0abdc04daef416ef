package simulator

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/georegister/georegister/test/mutants"
)

// TestMain lets garbage gather: worlds are small and end soon, and to collect after every few MiB takes a fifth of the
// processor time of a search. The bound is for the few tests whose worlds are large.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
		debug.SetMemoryLimit(1 << 30)
	}
	os.Exit(mutants.Main(m))
}
