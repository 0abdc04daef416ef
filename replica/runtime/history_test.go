package runtime

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// Members are restarted, crashed, cut off and wiped, one after the other, while clients work on a few keys.
// What the clients saw must be linearizable.
func TestHistoryIsLinearizableWhileMembersFail(t *testing.T) {
	for protocol, durability := range map[string]storage.Durability{"abd": storage.Interval, "gryff": storage.Sync} {
		t.Run(protocol+", "+durability.String(), func(t *testing.T) {
			w := newWorkload(newCluster(t, 3, Options{Protocol: protocol, Shards: 2}, storage.Options{Durability: durability}), protocol == "gryff")
			w.run(6)
			for _, fault := range []func(){w.restart, w.crash, w.cutOff, w.wipe} {
				w.progress(200)
				fault()
				for i, r := range w.cluster.replicas {
					eventually(t, fmt.Sprintf("member %d serves", i+1), r.Quorum)
				}
			}
			w.progress(200)
			w.stop.Store(true)
			w.clients.Wait()
			if verdict := history.Check(t.Context(), w.recorder.Operations(), history.Options{Timeout: patience}); !verdict.OK() {
				t.Fatalf("%s: %s", verdict.Outcome, verdict.Explanation)
			}
		})
	}
}

// workload is a set of clients in a closed loop.
type workload struct {
	cluster  *cluster
	rmws     bool
	recorder *history.Recorder
	members  [3]atomic.Pointer[Replica] // whom clients ask; nil: not now
	busy     [3]atomic.Int64            // operations under way at each
	ended    atomic.Int64               // operations that took effect
	stop     atomic.Bool
	clients  sync.WaitGroup
}

func newWorkload(c *cluster, rmws bool) *workload {
	begin := time.Now()
	w := &workload{cluster: c, rmws: rmws, recorder: history.NewRecorder(func() time.Duration { return time.Since(begin) })}
	for i, r := range c.replicas {
		w.members[i].Store(r)
	}
	return w
}

func (w *workload) run(clients int) {
	for client := range clients {
		w.clients.Go(func() {
			draw := rand.New(rand.NewPCG(1, uint64(client)))
			for n := 0; !w.stop.Load(); n++ {
				w.ask(fmt.Sprint("client-", client), draw.IntN(3), w.operation(draw, fmt.Sprintf("%d.%d", client, n)))
			}
		})
	}
	w.cluster.t.Cleanup(func() { w.stop.Store(true); w.clients.Wait() })
}

func (w *workload) operation(draw *rand.Rand, unique string) register.Operation {
	op := register.Operation{Kind: register.Read, Key: "key-" + strconv.Itoa(draw.IntN(3))}
	switch kind := draw.IntN(4); {
	case kind == 0:
		op.Kind, op.Value = register.Write, register.Value(unique)
	case kind == 1 && w.rmws:
		op.Kind, op.Call = register.RMW, register.Call{Function: register.Append, Args: [][]byte{[]byte("+")}}
	}
	return op
}

func (w *workload) ask(client string, member int, op register.Operation) {
	w.busy[member].Add(1)
	defer w.busy[member].Add(-1)
	r := w.members[member].Load()
	if r == nil {
		time.Sleep(time.Millisecond) // ask another one
		return
	}
	invocation := w.recorder.Invoke(client, strconv.Itoa(member+1), op)
	done := make(chan register.Result, 1)
	r.Submit(op, 200*time.Millisecond, func(result register.Result) { done <- result })
	result := <-done
	invocation.Return(result)
	if result.Status == register.OK {
		w.ended.Add(1)
	}
}

// progress waits until clients got that many more answers.
func (w *workload) progress(operations int64) {
	w.cluster.t.Helper()
	target := w.ended.Load() + operations
	eventually(w.cluster.t, "clients make progress", func() bool { return w.ended.Load() >= target })
}

// back starts a member that is down, and lets clients ask it again.
func (w *workload) back(member int) {
	w.progress(100)
	w.cluster.restart(member)
	w.members[member].Store(w.cluster.replicas[member])
}

func (w *workload) restart() {
	w.members[2].Store(nil)
	w.cluster.stop(2)
	w.back(2)
}

// crash takes the image of the directory while the process runs, but can't promise anything any more: what it
// promised after the image was taken would be lost, as no crash loses it.
func (w *workload) crash() {
	w.members[1].Store(nil)
	w.block(1, transport.Incoming|transport.Outgoing)
	eventually(w.cluster.t, "no client waits for the member", func() bool { return w.busy[1].Load() == 0 })
	w.cluster.crash(1)
	w.back(1)
}

func (w *workload) cutOff() {
	w.block(0, transport.Incoming)
	w.progress(100)
	w.block(0, 0)
}

func (w *workload) wipe() {
	w.members[2].Store(nil)
	w.cluster.stop(2)
	if err := os.RemoveAll(w.cluster.dirs[2]); err != nil {
		w.cluster.t.Fatal(err)
	}
	w.back(2)
}

func (w *workload) block(member int, directions transport.Direction) {
	for _, m := range w.cluster.view.Members {
		if m.ID == view.MemberID(member+1) {
			continue
		}
		if err := w.cluster.replicas[member].Block(m.ID, directions); err != nil {
			w.cluster.t.Fatal(err)
		}
	}
}
