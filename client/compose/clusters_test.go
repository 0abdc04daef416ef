package compose_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/client/compose"
	grpclistener "github.com/georegister/georegister/replica/listener/grpc"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// patience bounds what these tests wait for.
const patience = 30 * time.Second

// store is a member behind a listener.
type store struct{ *runtime.Replica }

func (s store) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) {
	s.Replica.Submit(op, timeout, done)
}

// cluster is five members of protocol GryffRSC in this process, each with a client at its gRPC listener.
type cluster struct {
	replicas []*runtime.Replica
	clients  []*client.Client
}

// startCluster has what comes to the first member be late by so much, and what goes from the second to the third, so
// that what the second writes back is still under way when others look. Members ask those next to them in the circle
// first, and ask again after a long time only.
func startCluster(t *testing.T, late time.Duration) *cluster {
	t.Helper()
	const size = 5
	v := view.View{Cluster: t.Name(), Epoch: 1}
	listeners := make([]net.Listener, size)
	for i := range listeners {
		listeners[i] = listen(t)
		v.Members = append(v.Members,
			view.Member{
				ID: view.MemberID(i + 1), Site: fmt.Sprint("site-", i+1), Address: listeners[i].Addr().String(),
			})
	}
	proofs, err := proof.Parse(proof.Draw(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	for i, m := range v.Members {
		near := []view.MemberID{1, 2, 3, 4, 5}
		near = slices.DeleteFunc(near, func(id view.MemberID) bool { return id == m.ID })
		if m.ID == 5 {
			slices.Reverse(near)
		}
		store, err := storage.Open(storage.Options{
			Directory: t.TempDir(), Durability: storage.Memory,
			Identity: storage.Identity{Cluster: v.Cluster, Member: m.ID, Protocol: "gryffrsc", Shards: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		o := runtime.Options{
			View: v, Self: m.ID, Protocol: "gryffrsc", Store: store, Listener: listeners[i], Bootstrap: true, Seed: 1,
			Nearest: near, Retry: 1500 * time.Millisecond, Suspect: 5 * time.Second,
		}
		o.OneWayDelay = func(from view.MemberID) time.Duration {
			if m.ID == 1 || m.ID == 3 && from == 2 {
				return late
			}
			return 0
		}
		r, err := runtime.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(r.Close(), store.Close()); err != nil {
				t.Error(err)
			}
		})
		c.replicas = append(c.replicas, r)
		c.clients = append(c.clients, serve(t, r, m, proofs))
	}
	return c
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve returns a client of a member's listener.
func serve(t *testing.T, r *runtime.Replica, m view.Member, proofs *proof.Keys) *client.Client {
	t.Helper()
	s, err := grpclistener.New(
		operation.Options{
			Store: store{r}, Proofs: proofs,
			Identity: operation.Identity{Member: m.ID, Site: m.Site, Protocol: "GryffRSC"},
		})
	if err != nil {
		t.Fatal(err)
	}
	l, served := listen(t), make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	c, err := client.Dial(ctx,
		client.Options{Endpoints: []client.Endpoint{{Address: l.Addr().String()}}, AttemptTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), s.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
	})
	return c
}

// block has what the first member sends to others vanish, or not any longer.
func (c *cluster) block(t *testing.T, d transport.Direction, to ...view.MemberID) {
	t.Helper()
	for _, id := range to {
		if err := c.replicas[0].Block(id, d); err != nil {
			t.Fatal(err)
		}
	}
}

// thread is a user with a session at each cluster, which is part of one process if it is composed.
type thread struct{ photos, albums *client.Session }

func begin(t *testing.T, photos, albums *client.Client, composed bool) thread {
	t.Helper()
	p, err := photos.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	a, err := albums.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if composed {
		process := compose.NewProcess()
		if err := errors.Join(p.Compose(process, "photos"), a.Compose(process, "albums")); err != nil {
			t.Fatal(err)
		}
	}
	return thread{p, a}
}

// share has Charlie upload a photo, which so far his own member alone has; Alice find it and put its name into her
// album; and Bob read the album and look for the photo. It says whether the photo is there, and whether the upload was
// neither faster nor slower than this test.
func share(t *testing.T, photos, albums *cluster, key string, late time.Duration, composed bool) (there, asMeant bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	uploaded := make(chan error, 1)
	go func() { uploaded <- photos.clients[0].Set(ctx, key, []byte("...")) }()
	defer func() {
		photos.block(t, 0, 2, 3, 4, 5)
		if err := <-uploaded; err != nil {
			t.Errorf("the upload: %v", err)
		}
	}()
	time.Sleep(late / 4) // its first messages are answered, and the answers on their way for longer than that
	photos.block(t, transport.Outgoing, 2, 3, 4, 5)
	time.Sleep(late)
	photos.block(t, 0, 2) // which does not hear of the upload before that is sent again, and asks first

	alice := begin(t, photos.clients[1], albums.clients[1], composed)
	for end := time.Now().Add(2 * late); ; { // she looks until she asks the first member
		photo, err := alice.photos.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		known, err := alice.photos.ExportContext()
		if err == nil && photo.Present() && len(known) > 2 {
			break
		}
		if err != nil || photo.Present() || time.Now().After(end) {
			return false, false
		}
	}
	if err := alice.albums.Set(ctx, "alice", []byte(key)); err != nil {
		t.Fatal(err)
	}
	bob := begin(t, photos.clients[4], albums.clients[4], composed)
	name, err := bob.albums.Get(ctx, "alice")
	if err != nil || string(name) != key {
		t.Fatalf("the album has %q: %v", name, err)
	}
	photo, err := bob.photos.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return photo.Present(), true
}

// What Example_twoClusters shows with registers in memory, with members of two clusters that run the protocol.
func TestSessionsOfTwoClustersCompose(t *testing.T) {
	t.Parallel()
	const late = 400 * time.Millisecond
	photos, albums := startCluster(t, late), startCluster(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, c := range photos.clients { // until all are connected
		if err := c.Set(ctx, "connected", nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, composed := range []bool{false, true} {
		for try := 0; ; try++ {
			there, asMeant := share(t, photos, albums, fmt.Sprint("photo-", composed, try), late, composed)
			if asMeant {
				if there != composed {
					t.Errorf("composed %t: the photo that the album names is there: %t", composed, there)
				}
				break
			}
			if try == 5 {
				t.Fatal("the upload is never under way when it is looked for")
			}
		}
	}
}
