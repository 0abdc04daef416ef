package node

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport/codec"
)

// patience bounds the wait for any one condition.
const patience = 30 * time.Second

// await polls a condition.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// given holds the addresses that free returned: whoever got one may not listen there yet.
var given sync.Map

// free is an address that nobody listens at, with a port from below the range of outgoing connections' own.
func free(t testing.TB) string {
	t.Helper()
	for range 1000 {
		// Other packages' tests run beside these, on other ports.
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close()
		if _, taken := given.LoadOrStore(address, true); !taken {
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// running is a member in this process.
type running struct {
	config Config
	node   *node
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // once it has ended
	admin  adminv1.AdminClient
}

func run(t testing.TB, config Config) *running {
	t.Helper()
	return runWith(t, config, Options{Version: "test"})
}

func runWith(t testing.TB, config Config, options Options) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &running{config: config, node: newNode(config, options), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = r.node.run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-r.ended // before its directory is removed
		if r.err != nil {
			t.Logf("member %d ended: %v", config.Self, r.err)
		}
	})
	connection, err := grpc.NewClient(config.Listen.Admin, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	r.admin = adminv1.NewAdminClient(connection)
	return r
}

func (r *running) status(t testing.TB) *adminv1.StatusResponse {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := r.admin.Status(ctx, &adminv1.StatusRequest{Cluster: r.config.Cluster, Member: uint32(r.config.Self)},
		grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// probe asks an HTTP path.
func (r *running) probe(path string) (int, string) {
	response, err := http.Get("http://" + r.config.Listen.HTTP + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// three starts a cluster of three members.
func three(t *testing.T) []*running {
	t.Helper()
	var configs []Config
	base := valid("")
	for i := range base.Members {
		base.Members[i].Address = free(t)
	}
	for i := range base.Members {
		c := base
		c.Self = c.Members[i].ID
		c.Directory = filepath.Join(t.TempDir(), fmt.Sprint(c.Self))
		c.Durability = storage.Sync
		c.Listen = Listen{Peer: c.Members[i].Address, GRPC: free(t), Redis: free(t), Admin: free(t), HTTP: free(t)}
		configs = append(configs, c)
	}
	var all []*running
	for _, c := range configs {
		all = append(all, run(t, c))
	}
	for _, r := range all {
		await(t, "quorum", func() bool { return r.status(t).Quorum })
	}
	return all
}

func TestMember(t *testing.T) {
	all := three(t)
	first := all[0]
	client := redis.NewClient(&redis.Options{Addr: first.config.Listen.Redis, MaxRetries: -1})
	defer client.Close()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Incr(t.Context(), "k").Result(); err == nil {
		t.Error("INCR of a text succeeded")
	}
	if n, err := client.Incr(t.Context(), "n").Result(); n != 1 || err != nil {
		t.Errorf("INCR: %d, %v", n, err)
	}

	got := first.status(t)
	if got.Role != adminv1.Role_VOTER || got.Boot != 1 || got.Incarnation != 1 || got.Shards != 2 ||
		got.VotingShards != 2 ||
		got.Site != "a" || got.Protocol != "Gryff" || len(got.Peers) != 2 || !got.Peers[0].Reachable {
		t.Errorf("status: %v", got)
	}
	// What comes from the second member takes 3ms, and what goes there takes nothing.
	if p := got.Peers[0]; p.MinRttMicroseconds < 3000 || p.MinRttMicroseconds > p.RttMicroseconds {
		t.Errorf("the shortest of the round trips to a member 3ms away: %v", p)
	}
	for kind, answered := range map[string]uint64{"read": 0, "write": 1, "rmw": 2} {
		for _, o := range got.Operations {
			if o.Kind == kind && o.Answered != answered {
				t.Errorf("%d %ss were answered, want %d", o.Answered, kind, answered)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/quorumz"} {
		if code, text := first.probe(path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	_, metrics := first.probe("/metrics")
	documentation, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{"go_goroutines", `georegister_peer_min_rtt_seconds{peer="2"}`} {
		if !strings.Contains(metrics, wanted) {
			t.Errorf("metrics lack %s:\n%s", wanted, metrics)
		}
	}
	documented := map[string]bool{}
	for _, found := range regexp.MustCompile("`(georegister_[a-z_]+)").FindAllSubmatch(documentation, -1) {
		documented[string(found[1])] = true
	}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (georegister_\w+)`).FindAllStringSubmatch(metrics, -1) {
		if !documented[found[1]] {
			t.Errorf("docs/operations.md does not tell about %s", found[1])
		}
	}

	for _, r := range all {
		r.stop()
	}
	for _, r := range all {
		if <-r.ended; r.err != nil {
			t.Errorf("member %d: %v", r.config.Self, r.err)
		}
	}
}

func TestLinksCutAndMended(t *testing.T) {
	all := three(t)
	first := all[0]
	set := func(blocked bool) {
		for _, peer := range []uint32{2, 3} {
			_, err := first.admin.SetLink(t.Context(),
				&adminv1.SetLinkRequest{Cluster: "c", Member: 1, Peer: peer, Blocked: blocked})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	set(true)
	await(t, "no quorum", func() bool {
		code, _ := first.probe("/quorumz")
		return code == http.StatusServiceUnavailable
	})
	if code, text := first.probe("/readyz"); code != http.StatusOK {
		t.Errorf("without quorum the member still serves its role: %d %s", code, text)
	}
	if !all[1].status(t).Quorum {
		t.Error("the other two are a quorum")
	}
	set(false)
	await(t, "quorum", func() bool { code, _ := first.probe("/quorumz"); return code == http.StatusOK })
}

func TestAdminRefusesCallsForOthers(t *testing.T) {
	first := three(t)[0]
	for name, call := range map[string]func() error{
		"another cluster": func() error {
			_, err := first.admin.Status(t.Context(), &adminv1.StatusRequest{Cluster: "d", Member: 1})
			return err
		},
		"another member": func() error {
			_, err := first.admin.SetLink(t.Context(),
				&adminv1.SetLinkRequest{Cluster: "c", Member: 2, Peer: 3, Blocked: true})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := metadata.AppendToOutgoingContext(t.Context(), "long", strings.Repeat("x", codec.MaxHeaderBytes))
	_, err := first.admin.Status(long, &adminv1.StatusRequest{Cluster: "c", Member: 1})
	if err == nil || !strings.Contains(err.Error(), "header list size") {
		t.Errorf("a call with long headers: %v", err)
	}
	_, err = first.admin.SetLink(t.Context(), &adminv1.SetLinkRequest{Cluster: "c", Member: 1, Peer: 9, Blocked: true})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("an unknown peer: %v", err)
	}
}

// A member that can't start says why, and has changed nothing.
func TestRunRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := valid(filepath.Join(t.TempDir(), "disk"))
	c.Listen.Redis = taken.Addr().String()
	if err := Run(t.Context(), c, Options{}); err == nil || !strings.Contains(err.Error(), "listen.redis") {
		t.Errorf("a port that is taken: %v", err)
	}
	if found, err := filepath.Glob(c.Directory + "/*"); err != nil || len(found) > 0 {
		t.Errorf("the disk was touched: %v, %v", found, err)
	}
	c.Listen.Redis = ""
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c, Options{}) }()
	await(t, "the disk is in use", func() bool {
		found, err := filepath.Glob(filepath.Join(c.Directory, "IDENTITY"))
		return err == nil && len(found) == 1
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.Cluster = "another"
	if err := Run(t.Context(), c, Options{}); err == nil ||
		!strings.Contains(err.Error(), "cluster is c, this member's is another") {
		t.Errorf("a foreign disk: %v", err)
	}
}
