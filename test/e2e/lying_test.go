package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// All members are killed at once, as when the power fails, right after a write was acknowledged. What was acknowledged
// stays; and if it does not, since members acknowledge before they persist, the verdict says so, or before that one of
// the others, which was told of more than a disk holds.
func TestPowerFailure(t *testing.T) {
	for _, c := range []struct {
		name, binary string
		want         history.Outcome
	}{
		{"of members that persist first", binary, history.Linearizable},
		{"of members that acknowledge first", lying, history.Violation},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := startWith(t, c.binary, manifest(t, "Gryff"), t.TempDir())
			recorder := history.NewRecorder(nil)
			write := func(site, value string) {
				d := &doer{cluster.connect(site)}
				defer d.Close()
				op := register.Operation{Kind: register.Write, Key: "key", Value: register.Value(value)}
				invocation := recorder.Invoke("writer", site, op)
				result := d.Do(t.Context(), op)
				invocation.Return(result)
				if result.Status != register.OK {
					t.Fatalf("write: %s: %s", result.Status, result.Message)
				}
			}
			// Those that lie keep what is new in memory for some time. A member without any log would be one that has
			// lost its disk, and says so. A write reaches the quorum nearest to its coordinator, so each coordinates
			// one.
			cluster.await(t, "every member has written to its log", func() (string, bool) {
				for _, site := range cluster.sites {
					write(site, "old")
				}
				return cluster.logs(t)
			})
			write("ca", "new")
			for _, site := range cluster.sites {
				cluster.must(t, "kill", site)
			}
			for _, site := range cluster.sites {
				cluster.must(t, "restart", site)
			}
			forgotten := false
			cluster.await(t, "all members serve again", func() (string, bool) {
				table, all := cluster.serving()
				forgotten = strings.Contains(table, "has forgotten what it held")
				return table, all || forgotten
			})
			if forgotten {
				if c.want == history.Linearizable {
					t.Error("a member that persists first has forgotten what it told")
				}
				return
			}
			readBack(t, cluster, recorder, "jp", "key")
			verdict := history.Check(t.Context(), recorder.Operations(), history.Options{Timeout: patience})
			if verdict.Outcome != c.want {
				t.Errorf("the verdict is %s, want %s: %s", verdict.Outcome, c.want, verdict.Explanation)
			}
		})
	}
}

// logs reports whether every member's log has something in it, and what there is.
func (c *cluster) logs(t *testing.T) (seen string, all bool) {
	t.Helper()
	written := map[string]bool{}
	err := filepath.WalkDir(c.data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".log") {
			return err
		}
		data, err := os.ReadFile(path)
		if len(bytes.TrimRight(data, "\x00")) > 0 { // a log is filled with zeroes in front of what is written
			written[filepath.Dir(path)] = true
			seen += path + " "
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen, len(written) >= len(c.sites)
}
