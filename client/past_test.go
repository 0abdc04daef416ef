package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/client/compose"
	"github.com/georegister/georegister/client/regulartest"
	"github.com/georegister/georegister/replica/register"
)

// regular is a regular sequential store with a client at its first site, which meets writes under way, and one at its
// second.
func regular(t testing.TB) (cluster *regulartest.Cluster, first, second *Client) {
	t.Helper()
	cluster = &regulartest.Cluster{}
	one, two, stop, err := cluster.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return cluster, dialWith(t, Options{InOrder: true, Endpoints: []Endpoint{{Address: one}}}),
		dialWith(t, Options{InOrder: true, Endpoints: []Endpoint{{Address: two}}})
}

func session(t testing.TB, c *Client) *Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(t testing.TB, s *Session, key string) string {
	t.Helper()
	value, err := s.Get(within(t, bound), key)
	if err != nil {
		t.Fatal(err)
	}
	if !value.Present() {
		return "absent"
	}
	return string(value)
}

// carried lists what the last request of a kind came after, as key=value.
func carried(t testing.TB, cluster *regulartest.Cluster, kind registerv1.Kind) (all []string) {
	t.Helper()
	requests := cluster.Requests(kind)
	if len(requests) == 0 {
		t.Fatalf("no %v was received", kind)
	}
	for _, d := range requests[len(requests)-1].GetAfter() {
		all = append(all, fmt.Sprintf("%s=%s@%d", d.GetKey(), d.GetValue(), d.GetCarstamp().GetTimestamp()))
	}
	return all
}

// A read that saw a write under way is known to its session, and to no one else.
func TestASessionCarriesWhatItRead(t *testing.T) {
	cluster, here, there := regular(t)
	ctx := within(t, bound)
	finish := cluster.Begin("photo", register.Value("sunset"))
	defer finish()
	alice, bob := session(t, here), session(t, there)
	if got := get(t, alice, "photo"); got != "sunset" || !cluster.Requests(registerv1.Kind_READ)[0].GetRegular() {
		t.Fatalf("alice finds %s", got)
	}
	if got := get(t, bob, "photo"); got != "absent" {
		t.Fatalf("bob, whom nobody has told, finds %s", got)
	}
	if err := alice.Set(ctx, "other", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := carried(t, cluster, registerv1.Kind_WRITE); !slices.Equal(got, []string{"photo=sunset@1"}) {
		t.Errorf("the next write carried %v", got)
	}
	if got := get(t, bob, "photo"); got != "sunset" {
		t.Errorf("after what came after it, bob finds %s", got)
	}
	if err := alice.Set(ctx, "other", []byte("y")); err != nil {
		t.Fatal(err)
	}
	if got := carried(t, cluster, registerv1.Kind_WRITE); len(got) != 0 {
		t.Errorf("what was carried already is carried again: %v", got)
	}
}

func TestFence(t *testing.T) {
	cluster, here, there := regular(t)
	ctx := within(t, bound)
	alice, bob := session(t, here), session(t, there)
	if err := alice.Fence(ctx); err != nil || len(cluster.Requests(registerv1.Kind_FENCE)) != 0 {
		t.Errorf("a fence of nothing was sent: %v", err)
	}
	defer cluster.Begin("photo", register.Value("sunset"))()
	get(t, alice, "photo")
	if result, err := alice.Do(ctx, register.Operation{Kind: register.Fence}); err != nil ||
		result.Status != register.OK {
		t.Fatal(result, err)
	}
	if got := carried(t, cluster, registerv1.Kind_FENCE); !slices.Equal(got, []string{"photo=sunset@1"}) {
		t.Errorf("the fence carried %v", got)
	}
	if got := get(t, bob, "photo"); got != "sunset" {
		t.Errorf("after the fence, bob finds %s", got)
	}
	if err := alice.Fence(ctx); err != nil || len(cluster.Requests(registerv1.Kind_FENCE)) != 1 {
		t.Errorf("what was fenced is fenced again: %v", err)
	}
}

// What a context tells is known where it is imported, and is what makes the two one thread.
func TestContextsOfSessions(t *testing.T) {
	for _, told := range []bool{false, true} {
		cluster, here, there := regular(t)
		finish := cluster.Begin("photo", register.Value("sunset"))
		alice, bob := session(t, here), session(t, there)
		get(t, alice, "photo")
		exported, err := alice.ExportContext()
		if err != nil {
			t.Fatal(err)
		}
		want := "absent"
		if told {
			want = "sunset"
			if err := bob.ImportContext(exported); err != nil {
				t.Fatal(err)
			}
		}
		if got := get(t, bob, "photo"); got != want {
			t.Errorf("told is %t: bob finds %s", told, got)
		}
		finish()
	}
	_, here, _ := regular(t)
	s := session(t, here)
	nothing, err := s.ExportContext()
	if err != nil || len(nothing) != 2 {
		t.Errorf("the context of a new session is %v, %v", nothing, err)
	}
	for _, bytes := range [][]byte{nil, []byte("x"), append(nothing, 0)} {
		if err := s.ImportContext(bytes); !errors.Is(err, register.ErrPast) {
			t.Errorf("imported %v: %v", bytes, err)
		}
	}
}

// Several goroutines may read so much that no operation can carry it: it is fenced first.
func TestAFullPastIsFencedFirst(t *testing.T) {
	cluster, here, there := regular(t)
	const keys = 2*register.MaxDependencies + 3
	var others register.Past
	for i := range keys {
		key := fmt.Sprintf("k%02d", i)
		defer cluster.Begin(key, register.Value(key))()
		op := register.Operation{Kind: register.Read, Key: key}
		others.Learn(&op,
			register.Result{
				Status: register.OK, Depends: true, Value: register.Value(key),
				Carstamp: register.Carstamp{Timestamp: 1, Writer: 1},
			})
	}
	s := session(t, here)
	if err := s.ImportContext(others.Encode()); err != nil {
		t.Fatal(err)
	}
	get(t, s, "else")
	fences, carry := cluster.Requests(registerv1.Kind_FENCE), carried(t, cluster, registerv1.Kind_READ)
	if len(fences) != 2 || len(fences[0].GetAfter()) != register.MaxDependencies ||
		len(carry) != keys-2*register.MaxDependencies {
		t.Errorf("%d fences, and the read carried %v", len(fences), carry)
	}
	for i := range keys {
		if key := fmt.Sprintf("k%02d", i); get(t, session(t, there), key) != key {
			t.Errorf("%s is not at a quorum", key)
		}
	}
	if err := s.ImportContext(others.Encode()); err != nil {
		t.Fatal(err)
	}
	if err := s.Fence(within(t, bound)); err != nil || s.past.Len() != 0 {
		t.Errorf("a fence of much left %d dependencies: %v", s.past.Len(), err)
	}
}

// What ends without an answer leaves the past as it was, and what can't be fenced is not sent.
func TestAFailureKeepsThePast(t *testing.T) {
	cluster, here, _ := regular(t)
	ctx := within(t, bound)
	defer cluster.Begin("photo", register.Value("sunset"))()
	s := session(t, here)
	get(t, s, "photo")
	before, _ := s.ExportContext()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Set(ended, "k", nil); err == nil {
		t.Error("it was written after all")
	}
	if _, err := s.Add(ctx, "k", 1); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if err := s.Fence(ended); !errors.Is(err, ErrUnavailable) || !strings.HasPrefix(err.Error(), "fence: ") {
		t.Errorf("a fence that ended: %v", err)
	}
	if after, _ := s.ExportContext(); !slices.Equal(before, after) {
		t.Errorf("the past was %x, and is %x", before, after)
	}
	for i := range register.MaxDependencies {
		key := fmt.Sprint("k", i)
		defer cluster.Begin(key, nil)()
		op := register.Operation{Kind: register.Read, Key: key}
		s.past.Learn(&op,
			register.Result{Status: register.OK, Depends: true, Carstamp: register.Carstamp{Timestamp: 1, Writer: 1}})
	}
	if err := s.Set(ended, "k", nil); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) ||
		!strings.Contains(err.Error(), "before it: fence: ") {
		t.Errorf("a write whose session could not be fenced: %v", err)
	}
}

// An rmw that was refused has brought what it carried to a quorum.
func TestARefusalIsAnAnswer(t *testing.T) {
	s := &Session{}
	read := register.Operation{Kind: register.Read, Key: "k"}
	s.learn(&read, register.Result{Status: register.OK, Depends: true, Carstamp: register.Carstamp{Timestamp: 1}}, nil)
	rmw := register.Operation{Kind: register.RMW, Key: "n"}
	if _, err := s.attach(t.Context(), &rmw); err != nil || len(rmw.After) != 1 {
		t.Fatal(rmw.After, err)
	}
	for _, err := range []error{ErrUnavailable, ErrOutcomeUnknown, ErrInvalid} {
		if s.learn(&rmw, register.Result{}, fmt.Errorf("rmw: %w", err)); s.past.Len() != 1 {
			t.Errorf("%v was an answer", err)
		}
	}
	if s.learn(&rmw, register.Result{}, &Refused{}); s.past.Len() != 0 {
		t.Error("a refusal was none")
	}
}

// Goroutines of one session come after each other's reads, and nothing is carried for ever.
func TestManyGoroutinesOfOneSession(t *testing.T) {
	cluster, here, there := regular(t)
	s := session(t, here)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				key := fmt.Sprintf("%d/%d", g, i)
				finish := cluster.Begin(key, register.Value("v"))
				if value, err := s.Get(within(t, bound), key); err != nil || string(value) != "v" {
					t.Errorf("%s has %q: %v", key, value, err)
				}
				if i%3 == 0 {
					finish()
				}
			}
		})
	}
	wg.Wait()
	if err := s.Fence(within(t, bound)); err != nil || s.past.Len() != 0 {
		t.Errorf("%d dependencies are left: %v", s.past.Len(), err)
	}
	other := session(t, there)
	for g := range 8 {
		for i := range 20 {
			if key := fmt.Sprintf("%d/%d", g, i); get(t, other, key) != "v" {
				t.Errorf("%s is not at a quorum", key)
			}
		}
	}
}

// A session of a process has the other services fenced before it is used.
func TestComposedSessions(t *testing.T) {
	users, usersHere, usersThere := regular(t)
	photos, photosHere, _ := regular(t)
	u, p := session(t, usersHere), session(t, photosHere)
	process := compose.NewProcess()
	if err := errors.Join(u.Compose(process, "users"), p.Compose(process, "photos")); err != nil {
		t.Fatal(err)
	}
	defer users.Begin("alice", register.Value("new"))()
	get(t, u, "alice")
	get(t, u, "alice")
	if n := len(users.Requests(registerv1.Kind_FENCE)); n != 0 {
		t.Errorf("%d fences between operations of one service", n)
	}
	get(t, p, "album")
	get(t, u, "alice")
	if n := len(users.Requests(registerv1.Kind_FENCE)) + len(photos.Requests(registerv1.Kind_FENCE)); n != 0 {
		// The second read of alice carried the first one's, so that nothing was left to fence.
		t.Errorf("%d fences of what is at a quorum", n)
	}
	defer users.Begin("bob", register.Value("newer"))()
	get(t, u, "bob")
	get(t, p, "album")
	if got := carried(t, users, registerv1.Kind_FENCE); !slices.Equal(got, []string{"bob=newer@1"}) {
		t.Errorf("the fence carried %v", got)
	}
	if got := get(t, session(t, usersThere), "bob"); got != "newer" {
		t.Errorf("elsewhere, bob is %s", got)
	}
	for name, err := range map[string]error{
		"process is nil": session(t, usersHere).Compose(nil, "x"),
		`"users"`:        session(t, usersHere).Compose(process, "users"),
		`"photos" of a process already; make another with Client.NewSession`: p.Compose(compose.NewProcess(), "x"),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	// The fence of another service fails: nothing is sent here.
	get(t, u, "alice")
	defer users.Begin("carol", register.Value("c"))()
	get(t, u, "carol")
	ended, cancel := context.WithCancel(within(t, bound))
	cancel()
	sent := len(photos.Requests(registerv1.Kind_READ))
	if _, err := p.Get(ended, "album"); err == nil || len(photos.Requests(registerv1.Kind_READ)) != sent {
		t.Errorf("it was sent: %v", err)
	}
}

// Sessions that depend on nothing, as all do under linearizable protocols, pay nothing for those that do.
func TestSessionsWithoutDependenciesAllocateNothing(t *testing.T) {
	s, ctx := &Session{}, context.Background()
	op := register.Operation{Kind: register.Read, Key: "k"}
	result := register.Result{Status: register.OK, Value: register.Value("v")}
	if n := testing.AllocsPerRun(1000, func() {
		end, err := s.attach(ctx, &op)
		if end != nil || err != nil || op.After != nil {
			t.Fatal(op.After, err)
		}
		s.learn(&op, result, nil)
	}); n != 0 {
		t.Errorf("%v allocations of the session", n)
	}
	request := task{op: op}
	// The message and its key, as ever.
	if n := testing.AllocsPerRun(1000, func() { _ = request.request(time.Second) }); n > 2 {
		t.Errorf("%v allocations of the request", n)
	}
}
