package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// waiting is the configuration of a member without a view.
func waiting(t testing.TB, self view.MemberID, durability storage.Durability) Config {
	t.Helper()
	c := valid(filepath.Join(t.TempDir(), fmt.Sprint(self))).without()
	c.Self, c.Site, c.Durability = self, fmt.Sprint("site-", self), durability
	c.Listen = Listen{Peer: free(t), GRPC: free(t), Redis: free(t), Admin: free(t), HTTP: free(t)}
	return c
}

// waitFor starts members that wait for their view.
func waitFor(t testing.TB, durability storage.Durability, ids ...view.MemberID) (all []*running) {
	t.Helper()
	for _, id := range ids {
		all = append(all, run(t, waiting(t, id, durability)))
	}
	return all
}

func (r *running) founder(t testing.TB) membership.Founder {
	return membership.Founder{
		ID: r.config.Self, Site: r.config.Site, Address: r.config.Listen.Peer, Disk: r.status(t).Disk,
	}
}

func (r *running) configure(t testing.TB, v view.View) error {
	t.Helper()
	_, err := r.admin.Configure(t.Context(), &adminv1.ConfigureRequest{
		Cluster: r.config.Cluster, Member: uint32(r.config.Self), View: wire.ToProto(v),
	}, grpc.WaitForReady(true))
	return err
}

// founded founds a cluster of members that wait.
func founded(t testing.TB, all []*running) view.View {
	t.Helper()
	var founders []membership.Founder
	for _, r := range all {
		founders = append(founders, r.founder(t))
	}
	v, err := membership.Found("c", founders)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if err := r.configure(t, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range all {
		await(t, "quorum", func() bool { return r.status(t).Quorum })
	}
	return v
}

// again stops a member in order and starts it on what its directory holds.
func (r *running) again(t testing.TB) *running {
	t.Helper()
	r.stop()
	if <-r.ended; r.err != nil {
		t.Fatal(r.err)
	}
	return run(t, r.config)
}

func (r *running) redis(t testing.TB) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: r.config.Listen.Redis, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestAMemberWaitsForItsView(t *testing.T) {
	r := waitFor(t, storage.Sync, 1)[0]
	got := r.status(t)
	if got.Role != adminv1.Role_WAITING || got.Disk == "" || got.View != nil || got.Epoch != 0 || got.Digest != "" ||
		got.Site != "site-1" || got.Version != "test" || got.Quorum || got.Shards != 2 ||
		got.VotingShards != 0 || got.Boot != 1 {
		t.Errorf("status: %v", got)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/quorumz": 503} {
		code, text := r.probe(path)
		if code != want ||
			code == http.StatusServiceUnavailable && !strings.Contains(text, "waits to be given its first view") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if err := r.redis(t).Set(t.Context(), "k", "v", 0).Err(); err == nil || !strings.Contains(err.Error(), "TRYAGAIN") {
		t.Errorf("a client is told %v", err)
	}
	if again := r.again(t).status(t); again.Disk != got.Disk || again.Role != adminv1.Role_WAITING {
		t.Errorf("after a restart: %v", again)
	}
}

func TestFoundingAndRestartWithoutAnybody(t *testing.T) {
	for _, durability := range []storage.Durability{storage.Sync, storage.Interval} {
		t.Run(durability.String(), func(t *testing.T) {
			all := waitFor(t, durability, 1, 2, 3)
			v := founded(t, all)
			if err := all[0].redis(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			for i, r := range all {
				all[i] = r.again(t)
			}
			for _, r := range all {
				await(t, "quorum", func() bool { return r.status(t).Quorum })
				if got := r.status(t); got.Digest != v.Digest() || got.Epoch != 1 ||
					got.Incarnation != 1 || got.Boot != 2 {
					t.Errorf("status: %v", got)
				}
			}
			if got, err := all[1].redis(t).Get(t.Context(), "k").Result(); got != "v" || err != nil {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}

// Only the disks that the first view names are founded, so that a disk that is lost joins, whatever the order.
func TestALostDiskIsNotFoundedTwice(t *testing.T) {
	all := waitFor(t, storage.Sync, 1, 2, 3)
	v := founded(t, all)
	if err := all[0].redis(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	third := all[2]
	third.stop()
	if <-third.ended; third.err != nil {
		t.Fatal(third.err)
	}
	if err := os.RemoveAll(third.config.Directory); err != nil {
		t.Fatal(err)
	}
	third = run(t, third.config)
	if got := third.status(t); got.Role != adminv1.Role_WAITING || got.Disk == v.Members[2].Disk {
		t.Fatalf("status on an empty disk: %v", got)
	}
	if err := third.configure(t, v); err != nil {
		t.Fatal(err)
	}
	await(t, "it votes again", func() bool { return third.status(t).Role == adminv1.Role_VOTER })
	if got := third.status(t); got.Incarnation != 2 {
		t.Errorf("incarnation %d, want 2", got.Incarnation)
	}
	if got, err := third.redis(t).Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// What was lost before the cluster was founded had no part in it.
func TestADiskThatWasLostBeforeIsFoundedByItsName(t *testing.T) {
	all := waitFor(t, storage.Memory, 1, 2, 3)
	for i, r := range all {
		before := r.status(t).Disk
		all[i] = r.again(t)
		if after := all[i].status(t).Disk; after == before {
			t.Errorf("memory that is lost keeps the name %s", after)
		}
	}
	founded(t, all)
	for _, r := range all {
		if got := r.status(t); got.Role != adminv1.Role_VOTER || got.Incarnation != 1 {
			t.Errorf("status: %v", got)
		}
	}
}

// With durability Memory nothing but the process holds the state, so it has to outlive a change of the view.
func TestAViewIsTakenOnInProcess(t *testing.T) {
	for _, durability := range []storage.Durability{storage.Sync, storage.Interval, storage.Memory} {
		t.Run(durability.String(), func(t *testing.T) {
			all := waitFor(t, durability, 1, 2, 3)
			v := founded(t, all)
			client := all[0].redis(t).Conn() // one connection, which is not made anew
			defer client.Close()
			if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			disk := all[0].status(t).Disk
			v.Epoch = 2
			watched := make(chan struct{})
			var asking sync.WaitGroup
			asking.Go(func() { // the admin port answers all along
				for last := uint64(1); ; {
					got := all[0].status(t)
					if got.Epoch < last || got.Epoch == 2 != (got.Digest == v.Digest()) || got.Disk != disk {
						t.Errorf("after epoch %d: %v", last, got)
					}
					last = got.Epoch
					select {
					case <-watched:
						return
					default:
					}
				}
			})
			for _, r := range all {
				if err := r.configure(t, v); err != nil {
					t.Error(err)
				}
			}
			close(watched)
			asking.Wait()
			for _, r := range all {
				await(t, "quorum", func() bool { return r.status(t).Quorum })
			}
			if got, err := client.Get(t.Context(), "k").Result(); got != "v" || err != nil {
				t.Errorf("read %q, %v over the connection of before", got, err)
			}
			got := all[0].status(t)
			if got.Epoch != 2 || got.Digest != v.Digest() || got.Incarnation != 1 || got.Boot != 2 || got.Disk != disk {
				t.Errorf("status: %v", got)
			}
		})
	}
}

// The addresses of a view may be names, which lead elsewhere after a restart.
func TestPeersAreFoundByName(t *testing.T) {
	var leads sync.Map // from a name to an address
	options := Options{Dial: func(ctx context.Context, name string) (net.Conn, error) {
		address, known := leads.Load(name)
		if !known {
			return nil, fmt.Errorf("no such host: %s", name)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", address.(string))
	}}
	name := func(r *running) string { return fmt.Sprintf("c-%d-0.c-peers:7000", r.config.Self) }
	var all []*running
	var founders []membership.Founder
	for id := range view.MemberID(3) {
		r := runWith(t, waiting(t, id+1, storage.Sync), options)
		leads.Store(name(r), r.config.Listen.Peer)
		founder := r.founder(t)
		founder.Address = name(r)
		all, founders = append(all, r), append(founders, founder)
	}
	v, err := membership.Found("c", founders)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if err := r.configure(t, v); err != nil {
			t.Fatal(err)
		}
	}
	reached := func(r *running) func() bool {
		return func() bool {
			got := r.status(t)
			return got.Quorum && got.Peers[0].Reachable && got.Peers[1].Reachable
		}
	}
	await(t, "all are reached", reached(all[0]))
	third := all[2]
	third.stop()
	if <-third.ended; third.err != nil {
		t.Fatal(third.err)
	}
	third.config.Listen.Peer = free(t)
	leads.Store(name(third), third.config.Listen.Peer)
	third = runWith(t, third.config, options)
	await(t, "all are reached again", reached(all[0]))
	await(t, "the one that moved reaches all", reached(third))
}

func TestViewsThatAreRefused(t *testing.T) {
	all := waitFor(t, storage.Sync, 1, 2, 3)
	v := founded(t, all)
	v.Epoch = 5
	if err := all[0].configure(t, v); err != nil {
		t.Fatal(err)
	}
	if err := all[0].configure(t, v); err != nil {
		t.Errorf("the same view again: %v", err)
	}
	await(t, "the others learn of it", func() bool {
		return all[1].status(t).Epoch == 5 && all[2].status(t).Epoch == 5
	})
	earlier, other := v, v
	earlier.Epoch = 4
	other.Members = append([]view.Member{}, v.Members...)
	other.Members[1].Address = "elsewhere:7000"
	for _, refused := range []view.View{earlier, other} {
		err := all[0].configure(t, refused)
		if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "epoch 5") {
			t.Errorf("epoch %d: %v", refused.Epoch, err)
		}
	}
	if err := all[0].configure(t, view.View{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no view: %v", err)
	}
	if got := all[0].status(t); got.Epoch != 5 || got.Boot != 2 {
		t.Errorf("refusals changed it: %v", got)
	}
}

func TestARemovedMemberNeverServesAgain(t *testing.T) {
	all := newCast(t, "ABD", storage.Sync, 3)
	v := all.found(t, 1, 2, 3)
	joint := all.begin(t, v, nil, []view.MemberID{3})
	all.settle(t, joint)
	all.finish(t, joint)
	third := all[3]
	check := func() {
		t.Helper()
		if got := third.status(t); got.Role != adminv1.Role_REMOVED || got.Epoch != 3 || got.VotingShards != 0 {
			t.Errorf("status: %v", got)
		}
		code, text := third.probe("/readyz")
		if code != http.StatusServiceUnavailable || !strings.Contains(text, "removed by epoch 3") {
			t.Errorf("/readyz: %d %s", code, text)
		}
		if err := third.redis(t).Get(t.Context(), "k").Err(); err == nil ||
			!strings.Contains(err.Error(), "removed by epoch 3") {
			t.Errorf("a client is told %v", err)
		}
	}
	check()
	third = third.again(t)
	check()
	back := v
	back.Epoch = 9
	if err := third.configure(t, back); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("it is named again: %v", err)
	}
	check()
}
