package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// identity is that of the clusters that the tests found themselves.
const identity = "e2e.0123456789abcdef"

// member is a `georegister replica`, which starts without a view.
type member struct {
	id    view.MemberID
	site  string
	disk  string // its directory
	boot  string // its configuration, which says nothing of who it is
	ports struct{ Peer, GRPC, Redis, Admin, HTTP string }
	admin adminv1.AdminClient

	output *output
	input  io.Closer // the process ends with it, also if the test's does
	ended  chan struct{}
	signal func(os.Signal) error
	pid    int
}

// newMember starts a member on an empty disk. The test's end kills it. Durability is Sync, or what is given.
func newMember(t *testing.T, id view.MemberID, durability ...string) *member {
	t.Helper()
	m := &member{id: id, site: fmt.Sprint("site-", id), output: &output{}}
	directory := t.TempDir()
	m.disk, m.boot = filepath.Join(directory, "data"), filepath.Join(directory, "boot.yaml")
	for _, address := range []*string{&m.ports.Peer, &m.ports.GRPC, &m.ports.Redis, &m.ports.Admin, &m.ports.HTTP} {
		*address = free(t)
	}
	text, err := json.Marshal(map[string]any{
		"cluster": identity, "protocol": "Gryff", "shards": 2, "directory": m.disk,
		"durability": append(durability, "Sync")[0],
		"limits":     map[string]int{"keyBytes": 100, "valueBytes": 1000}, "listen": m.ports, "exitWithInput": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.boot, text, 0o600); err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(m.ports.Admin, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	m.admin = adminv1.NewAdminClient(connection)
	m.start(t)
	t.Cleanup(func() {
		_ = connection.Close()
		m.kill(t)
		if t.Failed() {
			t.Logf("member %d logged:\n%s", m.id, m.output)
		}
	})
	return m
}

// given holds the addresses that free returned: whoever got one may not listen there yet.
var given sync.Map

// free is an address that nobody listens at, with a port from below the range of outgoing connections' own, and
// below those that dev takes.
func free(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(6000))
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

// start starts the member on what its disk holds.
func (m *member) start(t *testing.T) {
	t.Helper()
	command := exec.Command(binary, "replica", "--config", m.boot, "--self", fmt.Sprint(m.id), "--site", m.site)
	command.Stdout, command.Stderr = m.output, m.output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	m.input, m.ended, m.signal, m.pid = input, make(chan struct{}), command.Process.Signal, command.Process.Pid
	go func(ended chan struct{}) {
		defer close(ended)
		_ = command.Wait() // killed, mostly
	}(m.ended)
}

// kill ends the member as a crash would.
func (m *member) kill(t *testing.T) {
	t.Helper()
	_ = m.signal(os.Kill) // it may have ended
	select {
	case <-m.ended:
	case <-time.After(patience):
		t.Errorf("member %d outlives its killing", m.id)
	}
}

// wipe ends the member, and starts it on an empty disk.
func (m *member) wipe(t *testing.T) {
	t.Helper()
	m.kill(t)
	if err := os.RemoveAll(m.disk); err != nil {
		t.Fatal(err)
	}
	m.start(t)
}

// status asks the member how it is; nil while it does not answer.
func (m *member) status(t *testing.T) *adminv1.StatusResponse {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	status, err := m.admin.Status(ctx, &adminv1.StatusRequest{Cluster: identity, Member: uint32(m.id)},
		grpc.WaitForReady(true))
	if err != nil {
		return nil
	}
	return status
}

// await polls a condition of the member's status.
func (m *member) await(
	t *testing.T, what string, condition func(*adminv1.StatusResponse) bool,
) *adminv1.StatusResponse {
	t.Helper()
	var last *adminv1.StatusResponse
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		if last = m.status(t); last != nil && condition(last) {
			return last
		}
		select {
		case <-m.ended:
			t.Fatalf("waiting until member %d %s: it ended", m.id, what)
		default:
		}
	}
	t.Fatalf("waiting until member %d %s: after %s: %v", m.id, what, patience, last)
	return nil
}

func serves(s *adminv1.StatusResponse) bool { return s.Role == adminv1.Role_VOTER && s.Quorum }
func waits(s *adminv1.StatusResponse) bool  { return s.Role == adminv1.Role_WAITING && s.Disk != "" }

// configure gives the member a view.
func (m *member) configure(t *testing.T, v view.View) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := m.admin.Configure(ctx,
		&adminv1.ConfigureRequest{Cluster: identity, Member: uint32(m.id), View: wire.ToProto(v)})
	return err
}

// found makes a cluster of members that wait.
func found(t *testing.T, members ...*member) view.View {
	t.Helper()
	var founders []membership.Founder
	for _, m := range members {
		founders = append(founders, m.founder(t))
	}
	v, err := membership.Found(identity, founders)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if err := m.configure(t, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range members {
		m.await(t, "serves", serves)
	}
	return v
}

// founder is the member as one that joins.
func (m *member) founder(t *testing.T) membership.Founder {
	t.Helper()
	return membership.Founder{ID: m.id, Site: m.site, Address: m.ports.Peer, Disk: m.await(t, "waits", waits).Disk}
}

// committed reports whether a view is committed, as the members say.
func committed(t *testing.T, v view.View, members ...*member) bool {
	holders := map[view.MemberID]string{}
	for _, m := range members {
		if status := m.status(t); status != nil {
			holders[m.id] = status.Digest
		}
	}
	return membership.Committed(v, holders)
}

// finish waits until the change of a joint view may be finished, and makes the view after it.
func finish(t *testing.T, joint view.View, members ...*member) view.View {
	t.Helper()
	var d membership.Decision
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		told := membership.Snapshot{View: joint}
		for _, m := range members {
			if s := m.status(t); s != nil {
				told.Members = append(told.Members, membership.MemberReport{
					Member: m.id, Digest: s.Digest, Settled: s.GetChange().GetSettled(),
					Fetched: s.GetChange().GetFetched(),
				})
			}
		}
		if d = membership.Decide(told); d.Kind == membership.Finished {
			return d.Next
		}
	}
	t.Fatalf("the change of epoch %d is not finishable after %s: members %d are not done",
		joint.Epoch, patience, d.Rest)
	return view.View{}
}

// connect returns a client of the member, which never retries by itself.
func (m *member) connect() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: m.ports.Redis, MaxRetries: -1, PoolSize: 1, DialerRetries: 1,
		DialTimeout: time.Second, ReadTimeout: 400 * time.Millisecond, WriteTimeout: time.Second,
	})
}

// suspend stops the member's process, with a read and an increment under way that wait for it to go on.
func (m *member) suspend(t *testing.T) map[string]chan reply {
	t.Helper()
	clients := map[string]*redis.Client{}
	for _, name := range []string{"read", "increment"} {
		options := *m.connect().Options()
		options.ReadTimeout = patience
		clients[name] = redis.NewClient(&options)
		t.Cleanup(func() { _ = clients[name].Close() })
		if err := clients[name].Ping(t.Context()).Err(); err != nil { // it is connected before
			t.Fatal(err)
		}
	}
	if err := m.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The signal is on its way then: on a busy machine the process may answer yet.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(m.pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("member %d is to be suspended: %v, %v", m.id, status, err)
	}
	late := map[string]chan reply{"read": make(chan reply, 1), "increment": make(chan reply, 1)}
	go func() { late["read"] <- clients["read"].Get(context.Background(), "key-0") }()
	go func() { late["increment"] <- clients["increment"].Incr(context.Background(), "late") }()
	return late
}

// probe asks a path of the HTTP port; 0 while it does not answer.
func (m *member) probe(path string) int {
	response, err := (&http.Client{Timeout: time.Second}).Get("http://" + m.ports.HTTP + path)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
