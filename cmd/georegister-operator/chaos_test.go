package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/georegister/georegister/cmd/program"
)

// A run that can't begin decides nothing, which is another status than that of a cluster that failed.
func TestChaosCommandStatus(t *testing.T) {
	for _, args := range [][]string{
		{"run", "kill-site", "--every", "0s"},
		{"run", "kill-site", "--kubeconfig", "/dev/null/none"},
		{"run"}, {"run", "kill-site", "--how"},
	} {
		if err := chaosCommand(t, &bytes.Buffer{}, args...); program.Status(err) != program.Undecided {
			t.Errorf("chaos %q ends with %d: %v", args, program.Status(err), err)
		}
	}
}

func TestChaosListCommand(t *testing.T) {
	var out bytes.Buffer
	if err := chaosCommand(t, &out, "list"); err != nil || !strings.Contains(out.String(), "kill-replica") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func chaosCommand(t *testing.T, out *bytes.Buffer, args ...string) error {
	t.Helper()
	c := newKubectlCommand()
	c.SetOut(out)
	c.SetArgs(append([]string{"chaos"}, args...))
	return c.ExecuteContext(t.Context())
}
