package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// threeSites writes a manifest of three sites of the Gryff paper's five, at its distances; more is added to its spec.
func threeSites(t *testing.T, more string) string {
	t.Helper()
	text := `apiVersion: georegister.io/v1alpha1
kind: GeoRegisterCluster
metadata: {name: e2e}
spec:
  protocol: Gryff
  sites: [{name: ca}, {name: va}, {name: or}]
  wan: {profile: gryff}
` + more
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Two sites are added, the member of one is replaced at its own site, and two leave, one of them an early one, while
// clients at every site go on: those of members that stay feel nothing, and all answers fit one order.
func TestMembersChangeUnderLoad(t *testing.T) {
	c := start(t, threeSites(t, ""), t.TempDir())
	load := newSiteLoad(t)
	load.at(c, "ca", "va", "or")
	load.progress(t, "ca", "va", "or")
	change := func(leave []string, command ...string) {
		t.Helper()
		load.excuse(leave...)
		c.must(t, command...)
		c.await(t, "all members serve", c.serving)
	}
	change(nil, "add", "ir", "jp")
	c.locate(t)
	load.at(c, "ir", "jp")
	load.progress(t, "ca", "va", "or", "ir", "jp")

	change([]string{"va"}, "replace", "va")
	c.locate(t)
	load.at(c, "va-2")
	load.progress(t, "ca", "va-2", "or", "ir", "jp")

	change([]string{"or", "jp"}, "remove", "or", "jp")
	load.progress(t, "ca", "va-2", "ir")
	c.locate(t)
	if fmt.Sprint(c.sites) != "[ca ir va-2]" {
		t.Errorf("the members are %s", c.sites)
	}
	load.finish(t, c)
	near(t, c, "ca", "va-2", 72*time.Millisecond)
	near(t, c, "va-2", "ir", 88*time.Millisecond)
	near(t, c, "ir", "ca", 151*time.Millisecond)
}

// near wants a member to find another one no nearer than the distance of their sites, which is emulated.
func near(t *testing.T, c *cluster, from, to string, rtt time.Duration) {
	t.Helper()
	c.await(t, from+" has measured the way to "+to, func() (string, bool) {
		s := c.status(t, from)
		i := slices.IndexFunc(s.GetPeers(), func(p *adminv1.Peer) bool { return int(p.Member) == c.ids[to] })
		if i < 0 || s.Peers[i].RttMicroseconds == 0 {
			return fmt.Sprint(s.GetPeers()), false
		}
		if got := time.Duration(s.Peers[i].RttMicroseconds) * time.Microsecond; got < rtt {
			t.Errorf("from %s to %s it is %s, and the profile has %s", from, to, got, rtt)
		}
		return "", true
	})
}

// status asks a member; nil while it does not answer.
func (c *cluster) status(t *testing.T, label string) *adminv1.StatusResponse {
	t.Helper()
	connection, err := grpc.NewClient(c.admin[label], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	status, err := adminv1.NewAdminClient(connection).Status(ctx,
		&adminv1.StatusRequest{Cluster: c.identity, Member: uint32(c.ids[label])}, grpc.WaitForReady(true))
	if err != nil {
		return nil
	}
	return status
}

// A newcomer is killed while it fetches the state, and then everything is, with the program that drives the change: it
// goes on from where it was, on what the newcomer has. Then a change is given up in the middle.
func TestAChangeGoesOnAfterCrashes(t *testing.T) {
	manifest, data := threeSites(t, "  shards: 1\n  storage: {durability: Sync, transferRate: 512Ki}\n"), t.TempDir()
	c := start(t, manifest, data)
	const count = 3000 // of values of 1000 bytes, which take six seconds at that rate
	fill(t, c, count)

	changed := make(chan error, 1)
	go func() {
		_, err := c.send("replace", "or", "with", "jp")
		changed <- err
	}()
	fetched := func(least uint64) *adminv1.Change {
		t.Helper()
		var change *adminv1.Change
		c.await(t, "jp has fetched a part", func() (string, bool) {
			c.locate(t)
			change = c.status(t, "jp").GetChange()
			return fmt.Sprint(change), change.GetBytes() >= least
		})
		if change.Fetched {
			t.Fatalf("jp fetched everything before it could be killed: %v", change)
		}
		return change
	}
	before := fetched(300_000)
	c.must(t, "kill", "jp")
	c.must(t, "restart", "jp")
	if now := fetched(1); now.Bytes < before.Bytes {
		t.Errorf("after the restart jp fetches from the beginning: %v, it had %v", now, before)
	}

	before = fetched(before.Bytes + 300_000)
	if err := c.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	if err := <-changed; err == nil {
		t.Error("the shell that followed the change was told that it ended well")
	}
	c = start(t, manifest, data)
	if now := fetched(1); now.Bytes < before.Bytes {
		t.Errorf("after everything was killed jp fetches from the beginning: %v, it had %v", now, before)
	}
	c.await(t, "the change is over", func() (string, bool) {
		table, err := c.send("status")
		return fmt.Sprint(table, err), err == nil && strings.Contains(table, "jp ") && !strings.Contains(table, "or ")
	})
	c.await(t, "all members serve", c.serving)
	c.locate(t)
	readAll(t, c, "jp", count)

	go func() {
		_, err := c.send("add", "or", "ir")
		changed <- err
	}()
	c.await(t, "or and ir join", func() (string, bool) {
		table, err := c.send("status")
		return fmt.Sprint(table, err), err == nil && strings.Contains(table, "fetched")
	})
	if text, err := c.send("abandon"); err == nil || !strings.Contains(err.Error(), "you abandoned it") {
		t.Errorf("following the change that is given up: %q, %v", text, err)
	}
	if err := <-changed; err == nil || !strings.Contains(err.Error(), "you abandoned it") {
		t.Errorf("the shell that began the change that was given up: %v", err)
	}
	c.locate(t)
	if fmt.Sprint(c.sites) != "[ca va jp]" {
		t.Errorf("the members are %s", c.sites)
	}
	c.await(t, "all members serve", c.serving)
	readAll(t, c, "ca", count/10)
}

// Two of three are lost for good, and the third goes on alone and is joined by others.
func TestRecovery(t *testing.T) {
	c := start(t, manifest(t, "Gryff"), t.TempDir())
	fill(t, c, 20)
	if _, err := c.send("recover", "ca"); err == nil || !strings.Contains(err.Error(), "a quorum is in reach") {
		t.Errorf("recovery with a quorum: %v", err)
	}
	c.must(t, "kill", "ir")
	c.must(t, "kill", "or")
	c.must(t, "wipe", "jp")
	c.await(t, "jp has joined in vain", func() (string, bool) {
		table, err := c.send("status")
		return fmt.Sprint(table, err), strings.Contains(table, "joining")
	})
	for command, want := range map[string]string{
		"recover jp": "its disk does not have the state", "recover ir": "`restart ir` first",
		"replace ir": "no quorum is in reach", "recover xx": `no site "xx"`,
	} {
		if _, err := c.send(strings.Fields(command)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", command, err, want)
		}
	}
	text, err := c.send("recover", "ca")
	if err != nil || !strings.Contains(text, "is lost") {
		t.Fatalf("recover: %q, %v", text, err)
	}
	c.await(t, "ca serves alone", c.serving)
	if _, err := c.send("add", "va"); err == nil || !strings.Contains(err.Error(), "3, 5 or 7") {
		t.Errorf("two members: %v", err)
	}
	c.must(t, "add", "va", "ir")
	c.await(t, "all members serve", c.serving)
	c.locate(t)
	readAll(t, c, "ir", 20)
}

// fill writes values of 1000 bytes under so many keys.
func fill(t *testing.T, c *cluster, count int) {
	t.Helper()
	client := c.connect(c.sites[0])
	defer client.Close()
	for first := 0; first < count; first += 500 {
		pipe := client.Pipeline()
		for i := first; i < min(first+500, count); i++ {
			pipe.Set(t.Context(), fmt.Sprint("fill-", i), valueOf(i), 0)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func valueOf(i int) string { return fmt.Sprintf("%01000d", i) }

// readAll wants what fill wrote.
func readAll(t *testing.T, c *cluster, site string, count int) {
	t.Helper()
	client := c.connect(site)
	defer client.Close()
	for first := 0; first < count; first += 500 {
		pipe := client.Pipeline()
		for i := first; i < min(first+500, count); i++ {
			pipe.Get(t.Context(), fmt.Sprint("fill-", i))
		}
		replies, err := pipe.Exec(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range replies {
			if text(r.(reply)) != valueOf(first+i) {
				t.Fatalf("key %d at %s is %q", first+i, site, text(r.(reply)))
			}
		}
	}
}

// siteLoad is clients in a closed loop, each of one member.
type siteLoad struct {
	recorder *history.Recorder
	stop     atomic.Bool
	clients  sync.WaitGroup
	count    int

	mutex    sync.Mutex
	answered map[string]int64
	excused  map[string]bool // members whose clients may fail from now on
	failures []string
}

func newSiteLoad(t *testing.T) *siteLoad {
	l := &siteLoad{recorder: history.NewRecorder(nil), answered: map[string]int64{}, excused: map[string]bool{}}
	t.Cleanup(func() { l.stop.Store(true); l.clients.Wait() })
	return l
}

// at adds clients of members.
func (l *siteLoad) at(c *cluster, labels ...string) {
	for _, label := range labels {
		for range 3 {
			operations, err := (workload.Spec{
				Mix: workload.Mix{Read: 40, Write: 40, RMW: 20}, Keys: workload.Uniform, KeyCount: 20, ValueBytes: 8,
				RMWs: workload.RMWAdd,
			}).Generator(l.count)
			if err != nil {
				panic(err) // the spec is this test's
			}
			number, d := l.count, &doer{c.connect(label)}
			l.count++
			l.clients.Go(func() { l.run(number, label, operations, d) })
		}
	}
}

func (l *siteLoad) run(number int, label string, operations *workload.Generator, d *doer) {
	defer d.Close()
	draw := rand.New(rand.NewPCG(2, uint64(number)))
	for !l.stop.Load() {
		op := operations.Next(draw)
		invocation := l.recorder.Invoke(fmt.Sprint("client-", number), label, op)
		result := d.Do(context.Background(), op)
		invocation.Return(result)
		l.mutex.Lock()
		if result.Status == register.OK || result.Status == register.Failed {
			l.answered[label]++
		} else if !l.excused[label] {
			l.failures = append(l.failures,
				fmt.Sprintf("%s %s at %s: %s: %s", op.Kind, op.Key, label, result.Status, result.Message))
		}
		over := l.excused[label] && result.Status == register.Unavailable
		l.mutex.Unlock()
		if over {
			return // the member is gone
		}
	}
}

// excuse says that members are about to leave.
func (l *siteLoad) excuse(labels ...string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, label := range labels {
		l.excused[label] = true
	}
}

// progress waits until clients of each of the members were answered some more.
func (l *siteLoad) progress(t *testing.T, labels ...string) {
	t.Helper()
	const some = 30
	counts := func() (n []int64) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		for _, label := range labels {
			n = append(n, l.answered[label])
		}
		return n
	}
	first := counts()
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		now := counts()
		if !slices.ContainsFunc(labels,
			func(label string) bool { i := slices.Index(labels, label); return now[i] < first[i]+some }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("clients of %s were answered %d operations, and %d at the start of %s", labels,
				now, first, patience)
		}
	}
}

// finish ends the load, reads all keys back at every member and judges what was seen.
func (l *siteLoad) finish(t *testing.T, c *cluster) {
	t.Helper()
	l.stop.Store(true)
	l.clients.Wait()
	if len(l.failures) > 0 {
		t.Errorf("%d operations failed at members that stay, such as: %s", len(l.failures),
			strings.Join(l.failures[:min(5, len(l.failures))], "; "))
	}
	for _, site := range c.sites {
		for i := range 20 {
			readBack(t, c, l.recorder, site, fmt.Sprint("key-", i))
		}
	}
	verdict := history.Check(t.Context(), l.recorder.Operations(), history.Options{Timeout: patience})
	if !verdict.OK() {
		t.Fatalf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	}
	t.Logf("%s: %d operations, %d of unknown outcome, on %d keys", verdict.Outcome, verdict.Operations,
		verdict.Unknown, verdict.Keys)
}
