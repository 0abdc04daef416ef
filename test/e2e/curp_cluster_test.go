package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/workload"
)

// part is a line of the table of partitions.
type part struct {
	state, master      string
	backups, witnesses []string
	term               string
}

// parts reads the table of a cluster with protocol CURP: how members are, their processes, and who keeps each
// partition.
func (c *cluster) parts() (table string, states map[string]string, processes map[string]int, parts []part) {
	table, err := c.send("status")
	if err != nil {
		return err.Error(), nil, nil, nil
	}
	states, processes = map[string]string{}, map[string]int{}
	members, partitions, _ := strings.Cut(table, "\nPARTITION ")
	for _, line := range strings.Split(members, "\n")[1:] {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		states[fields[0]] = fields[1]
		processes[fields[0]], _ = strconv.Atoi(fields[len(fields)-2])
		processes[fields[0]+"/witness"], _ = strconv.Atoi(fields[len(fields)-1]) // 0: it does not run
	}
	for _, line := range strings.Split(partitions, "\n")[1:] {
		fields := strings.Fields(line)
		if len(fields) == 8 && fields[0] == fmt.Sprint(len(parts)) {
			parts = append(parts, part{
				state: fields[1], master: fields[2], backups: listed(fields[3]),
				witnesses: listed(fields[4]), term: fields[5],
			})
		}
	}
	return table, states, processes, parts
}

// listed reads a list of the table.
func listed(field string) []string {
	if field == "-" {
		return nil
	}
	return strings.Split(field, ",")
}

// served reports whether every partition but those of some sites is served, and not by these.
func (c *cluster) served(without ...string) (string, bool) {
	table, _, _, parts := c.parts()
	return table, len(parts) > 0 && !slices.ContainsFunc(parts, func(p part) bool {
		return p.state != "serving" || slices.Contains(without, p.master)
	})
}

// all reports whether all members and all partitions serve.
func (c *cluster) all() (string, bool) {
	table, states, _, parts := c.parts()
	ok := len(parts) > 0
	for _, state := range states { // order is irrelevant: all have to
		ok = ok && state == "serving"
	}
	return table, ok && !slices.ContainsFunc(parts, func(p part) bool { return p.state != "serving" })
}

// whole reports whether all five members serve and all partitions are kept by as many as they should be.
func (c *cluster) whole() (string, bool) { return c.kept(2) }

// kept is whole where partitions survive so many faults.
func (c *cluster) kept(faults int) (string, bool) {
	table, states, processes, parts := c.parts()
	ok := len(parts) > 0
	for site, state := range states { // order is irrelevant: all have to
		ok = ok && state == "serving" && processes[site+"/witness"] != 0
	}
	for _, p := range parts {
		ok = ok && p.state == "serving" && len(p.backups) == faults && len(p.witnesses) == faults
	}
	return table, ok
}

// mastered is the number of the partition that a site is home to: the sites have one each, in their order.
func (c *cluster) mastered(site string) int { return slices.Index(c.sites, site) }

// clients load a cluster from all sites, and remember all that they saw.
type clients struct {
	t        *testing.T
	c        *cluster
	recorder *history.Recorder
	counters []*counter
	ended    atomic.Int64
	group    *errgroup.Group
	stop     context.CancelFunc
	report   *workload.Report
}

func startLoad(t *testing.T, c *cluster) *clients {
	t.Helper()
	l := &clients{t: t, c: c, recorder: history.NewRecorder(nil), counters: newCounters(c)}
	loop := workload.Loop{
		Spec: workload.Spec{
			Mix: workload.Mix{Read: 40, Write: 40, RMW: 20}, Keys: workload.Uniform, KeyCount: keys,
			ValueBytes: 8, RMWs: workload.RMWAdd,
		},
		Clients: 2, Seed: 1, Duration: 4 * patience, Recorder: l.recorder,
		Progress: func(history.Operation) { l.ended.Add(1) },
	}
	for _, site := range c.sites {
		loop.Sites = append(loop.Sites,
			workload.Site{Name: site, Connect: func(context.Context, int) (workload.Doer, error) {
				return &doer{c.connect(site)}, nil
			}})
	}
	group, ctx := errgroup.WithContext(t.Context())
	ctx, l.stop = context.WithCancel(ctx)
	l.group = group
	group.Go(func() (err error) {
		l.report, err = loop.Run(ctx)
		return err
	})
	for _, counter := range l.counters {
		group.Go(func() error { counter.run(ctx); return nil })
	}
	t.Cleanup(func() {
		l.stop()
		_ = group.Wait() // judge has looked at it
	})
	return l
}

// goesOn waits until more operations have ended.
func (l *clients) goesOn(what string) {
	l.t.Helper()
	from := l.ended.Load()
	l.c.await(l.t, what, func() (string, bool) {
		n := l.ended.Load() - from
		return fmt.Sprintf("%d operations ended meanwhile", n), n >= 200
	})
}

// judge ends the load, reads everything back everywhere, and checks what was seen.
func (l *clients) judge() {
	l.t.Helper()
	l.stop()
	if err := l.group.Wait(); err != nil {
		l.t.Fatal(err)
	}
	for i := range keys {
		for _, site := range l.c.sites {
			readBack(l.t, l.c, l.recorder, site, "key-"+strconv.Itoa(i))
		}
	}
	for _, counter := range l.counters {
		counter.verify(l.t, l.c)
	}
	verdict := history.Check(context.Background(), l.recorder.Operations(), history.Options{Timeout: patience})
	if !verdict.OK() {
		l.t.Fatalf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	}
	l.t.Logf("%s: %d operations, %d of unknown outcome, on %d keys: %v",
		verdict.Outcome, verdict.Operations, verdict.Unknown, verdict.Keys, l.report.Outcomes())
}

// suspend stops a process without its noticing; resume lets it go on, as the end of the test does.
func suspend(t *testing.T, pid int) (resume func()) {
	t.Helper()
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume = func() {
		if !resumed {
			resumed = true
			if err := process.Signal(syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(resume)
	return resume
}

// fast is how many updates of a partition took one round trip, of those that were submitted at a site; false: it takes
// on a view just now.
func (c *cluster) fast(t *testing.T, site string, partition int) (uint64, bool) {
	t.Helper()
	connection, err := grpc.NewClient(c.admin[site], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, err := adminv1.NewAdminClient(connection).Status(ctx,
		&adminv1.StatusRequest{Cluster: c.identity, Member: uint32(c.ids[site])}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatalf("status of %s: %v", site, err)
	}
	if partition >= len(status.Partitions) {
		return 0, false
	}
	return status.Partitions[partition].Fast, true
}
