package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/workload"
)

// Gus at seven sites, of which two may be lost (relaxed quorums): two are killed while clients of all sites contend for
// a few keys, and one of them comes back on an empty disk. What was acknowledged stays, and members do count quorums by
// faultTolerance.
func TestRelaxedGusLosesTwo(t *testing.T) {
	const operations, keys = 4000, 4
	c := start(t, filepath.Join("..", "..", "config", "samples", "gus-seven-sites.yaml"), t.TempDir())
	recorder := history.NewRecorder(nil)
	var ended atomic.Int64
	load := workload.Loop{
		Spec: workload.Spec{
			Mix: workload.Mix{Read: 50, Write: 50}, Keys: workload.Uniform, KeyCount: keys, ValueBytes: 8,
			RMWs: workload.RMWAdd,
		},
		Clients: 2, Seed: 1, Operations: operations, Duration: 2 * patience, Recorder: recorder,
		Progress: func(history.Operation) { ended.Add(1) },
	}
	for _, site := range c.sites {
		load.Sites = append(load.Sites,
			workload.Site{Name: site, Connect: func(context.Context, int) (workload.Doer, error) {
				return &doer{c.connect(site)}, nil
			}})
	}
	var report *workload.Report
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() (err error) {
		report, err = load.Run(ctx)
		return err
	})
	reached := func(n int64) func() (string, bool) {
		return func() (string, bool) {
			return fmt.Sprintf("%d operations ended", ended.Load()), ended.Load() >= n
		}
	}
	c.await(t, "the load is under way", reached(operations/4))
	c.must(t, "kill", "f")
	c.must(t, "kill", "g")
	c.await(t, "the load goes on without two", reached(operations/2))
	c.must(t, "wipe", "g")
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	c.must(t, "restart", "f")
	c.await(t, "all members serve again", c.serving)
	for i := range keys {
		for _, site := range c.sites {
			readBack(t, c, recorder, site, "key-"+strconv.Itoa(i))
		}
	}
	verdict := history.Check(t.Context(), recorder.Operations(), history.Options{Timeout: patience})
	if !verdict.OK() {
		t.Fatalf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	}
	if answered := report.Operations(); answered < operations/2 {
		t.Errorf("only %d of %d operations were answered: %v", answered, operations, report.Outcomes())
	}
	// Of seven members, those with majorities take neither path.
	held, relays := 0, 0
	for _, site := range c.sites {
		held += c.took(t, site, "read.held")
		relays += c.took(t, site, "read.relays")
	}
	if held+relays == 0 {
		t.Error("no member counted who holds a tag that is not final")
	}
	t.Logf("%s: %d operations, %d of unknown outcome; %d reads of what enough held, %d relays", verdict.Outcome,
		verdict.Operations, verdict.Unknown, held, relays)
}

// took is how often the protocol at a site took a path, since its process started.
func (c *cluster) took(t *testing.T, site, path string) (total int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.http[site]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "georegister_protocol_paths_total{") && strings.Contains(line, `path="`+path+`"`) {
			fields := strings.Fields(line)
			n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			total += int(n)
		}
	}
	return total
}
