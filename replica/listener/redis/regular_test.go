package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// regularCluster is five members of protocol GryffRSC in this process, some way from each other, so that reads meet
// writes that are under way.
func regularCluster(t *testing.T) (members []*runtime.Replica) {
	t.Helper()
	const size = 5
	v := view.View{Cluster: t.Name(), Epoch: 1}
	listeners := make([]net.Listener, size)
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		v.Members = append(v.Members,
			view.Member{
				ID: view.MemberID(i + 1), Site: fmt.Sprint("site-", i+1), Address: listeners[i].Addr().String(),
			})
	}
	root := t.TempDir()
	for i, m := range v.Members {
		store, err := storage.Open(storage.Options{
			Directory: filepath.Join(root, fmt.Sprint(m.ID)), Durability: storage.Memory,
			Identity: storage.Identity{Cluster: v.Cluster, Member: m.ID, Protocol: "gryffrsc", Shards: 3},
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := runtime.Start(t.Context(), runtime.Options{
			View: v, Self: m.ID, Protocol: "gryffrsc", Shards: 3, Store: store,
			Listener: listeners[i], Bootstrap: true, Seed: 1,
			OneWayDelay: func(from view.MemberID) time.Duration {
				return time.Duration(1+(uint32(from)+uint32(m.ID))%4) * time.Millisecond
			},
			Jitter: func(view.MemberID) time.Duration { return time.Millisecond },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(r.Close(), store.Close()); err != nil {
				t.Error(err)
			}
		})
		members = append(members, r)
	}
	return members
}

// witnessing is the store of one connection's listener, which notes what the connection does if there is a recorder.
type witnessing struct {
	client   string
	replica  *runtime.Replica
	recorder *history.Recorder
	depends  *atomic.Int64 // reads that were depended on
	carried  *atomic.Int64 // dependencies
}

func (w *witnessing) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) {
	if w.recorder == nil {
		w.replica.Submit(op, timeout, done)
		return
	}
	w.carried.Add(int64(len(op.After)))
	if op.Kind == register.Fence {
		w.replica.Submit(op, timeout, done)
		return
	}
	invocation := w.recorder.Invoke(w.client, w.client, op)
	w.replica.Submit(op, timeout, func(r register.Result) {
		if r.Depends {
			w.depends.Add(1)
		}
		invocation.Return(r)
		done(r)
	})
}

// TestWhatACommandComesAfterIsSeenByEveryone gives connections tokens of values that no member holds: once a command of
// such a connection is answered, whatever it is and in whichever shard, everybody reads them, at every site.
func TestWhatACommandComesAfterIsSeenByEveryone(t *testing.T) {
	var all []*speaker
	for _, replica := range regularCluster(t) {
		_, address := regularly(t, Options{Options: operation.Options{Store: &witnessing{replica: replica}}})
		all = append(all, dialWire(t, address))
	}
	for i, command := range []string{
		"SET a 1", "GET a", "INCR b", "DEL a none", "MSET a 1 c 2", "FENCE", "FENCE EXPORT",
	} {
		var past register.Past
		var keys []string
		for j := range 4 { // of several shards
			key := fmt.Sprint("told", i, "-", j)
			keys = append(keys, key)
			read := register.Operation{Kind: register.Read, Key: key}
			past.Learn(&read, register.Result{Status: register.OK, Value: register.Value(key),
				Carstamp: register.Carstamp{Timestamp: 100, Writer: register.NewWriter(1, 1, 1)}, Depends: true})
		}
		w := all[i%len(all)]
		w.command("FENCE", "IMPORT", signed(&past))
		w.expect("+OK\r\n")
		w.send(command + "\r\n")
		replies := w.finish()
		for j, other := range all {
			if other == w {
				continue
			}
			other.command(append([]string{"MGET"}, keys...)...)
			other.expect("*4\r\n")
			for _, key := range keys {
				if got := other.bulk(); (got == key) != (command != "FENCE EXPORT") {
					t.Errorf("after %s, which replied %q, %s is %q at site %d", command, replies, key, got, j+1)
				}
			}
		}
	}
}

// letter is what one connection's user tells another's: with a token, or after a fence.
type letter struct {
	from  string
	sent  time.Duration
	token string
}

// user is who uses one connection.
type user struct {
	*speaker
	name     string
	draw     *rand.Rand
	recorder *history.Recorder
	inbox    chan letter
	fences   []history.Fence
	letters  []history.Message
}

// step does something that is drawn.
func (u *user) step(others []*user, unique int) {
	select {
	case l := <-u.inbox:
		if l.token != "" {
			u.command("FENCE", "IMPORT", l.token)
			u.expect("+OK\r\n")
		}
		u.letters = append(u.letters,
			history.Message{From: l.from, Sent: l.sent, To: u.name, Received: u.recorder.Stamp()})
	default:
	}
	key, other := fmt.Sprint("k", u.draw.IntN(2)), others[u.draw.IntN(len(others))]
	switch at := u.draw.IntN(20); {
	case at < 11:
		u.command("GET", key)
		u.bulk()
	case at < 16:
		u.command("SET", key, fmt.Sprint(u.name, "-", unique))
		u.expect("+OK\r\n")
	case at == 16:
		u.command("INCR", "of "+u.name) // with others, rmws of one key would be all that the test waits for
		u.line()
	case at == 17:
		u.command("FENCE", "EXPORT")
		u.tell(other, u.bulk())
	default:
		invoked := u.recorder.Stamp()
		u.command("FENCE")
		u.expect("+OK\r\n")
		u.fences = append(u.fences, history.Fence{Client: u.name, Invoked: invoked, Returned: u.recorder.Stamp()})
		u.tell(other, "")
	}
}

func (u *user) tell(other *user, token string) {
	if other == u {
		return
	}
	select {
	case other.inbox <- letter{u.name, u.recorder.Stamp(), token}:
	default: // it has enough to read
	}
}

// TestConnectionsAreRegularSequential has connections at all sites read and write few keys at once, tell each other
// things, with tokens and after fences, and checks the history.
func TestConnectionsAreRegularSequential(t *testing.T) {
	const steps, least = 30, 10 // of each user; reads that are depended on, and dependencies that are carried
	recorder := history.NewRecorder(nil)
	var depends, carried atomic.Int64
	var all []*user
	for i, replica := range regularCluster(t) {
		name := fmt.Sprint("user ", i+1)
		store := &witnessing{name, replica, recorder, &depends, &carried}
		_, address := regularly(t, Options{Options: operation.Options{Store: store}})
		all = append(all,
			&user{speaker: dialWire(t, address), name: name,
				draw: rand.New(rand.NewPCG(uint64(i), 1)), recorder: recorder,
				inbox: make(chan letter, 4)})
	}
	var users sync.WaitGroup
	for _, u := range all {
		users.Go(func() {
			for n := 0; n < steps || depends.Load() < least || carried.Load() < least; n++ {
				u.step(all, n)
			}
		})
	}
	users.Wait()
	var options history.RSCOptions
	for _, u := range all {
		options.Fences, options.Messages = append(options.Fences, u.fences...), append(options.Messages, u.letters...)
	}
	verdict, err := history.CheckRSC(t.Context(), recorder.Operations(), options)
	if err != nil || !verdict.OK() {
		t.Errorf("%s: %s, %v", verdict.Outcome, verdict.Explanation, err)
	}
	t.Logf("%d operations, %d reads depended on, %d dependencies carried, %d fences, %d letters",
		verdict.Operations, depends.Load(), carried.Load(), len(options.Fences), len(options.Messages))
}
