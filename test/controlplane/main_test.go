//go:build controlplane

package controlplane

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/georegister/georegister/test/apiserver"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// root is the project's directory.
const root = "../.."

// The control plane that all tests share: each has a namespace of its own.
var (
	environment *envtest.Environment
	auditLog    string
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests wait for most of their time, so that more of them fit at once than there are processors.
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		if err := parallel.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err) // of a number
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	log.SetLogger(logr.Discard()) // each operator has the log of its test
	directory, err := os.MkdirTemp("", "controlplane-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(directory) }() // a temporary one
	if environment, auditLog, err = apiserver.Start(root, directory); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}
