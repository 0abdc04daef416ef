package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/workload"
)

// Members are founded, one loses its disk, one is replaced while it is suspended and goes on later with what it
// believed, and in the end all are killed and come back alone, while clients ask all of them: the answers fit one
// order.
func TestViewsUnderLoad(t *testing.T) {
	first, second, third := newMember(t, 1), newMember(t, 2), newMember(t, 3)
	v := found(t, first, second, third)
	load := newLoad(t, first, second, third)
	load.progress(t, 150)

	second.wipe(t)
	second.await(t, "waits on its new disk", waits)
	load.progress(t, 150) // the other two are a quorum
	if err := second.configure(t, v); err != nil {
		t.Fatal(err)
	}
	second.await(t, "votes again", func(s *adminv1.StatusResponse) bool { return serves(s) && s.Incarnation == 2 })
	load.progress(t, 150)

	// The third member leaves without knowing: it is suspended, with a read and an increment on their way to it.
	late := third.suspend(t)
	fourth := newMember(t, 4)
	joint, err := membership.Change(v, []membership.Founder{fourth.founder(t)}, []view.MemberID{third.id})
	if err != nil {
		t.Fatal(err)
	}
	if committed(t, joint, first, second, fourth) {
		t.Fatal("the joint view was committed before anybody was told")
	}
	for _, m := range []*member{first, second} { // the second may have heard of it from the first by then
		if err := m.configure(t, joint); err != nil {
			t.Fatal(err)
		}
	}
	if !committed(t, joint, first, second, fourth) {
		t.Fatal("the joint view did not take hold")
	}
	load.progress(t, 150, first, second) // without the newcomer
	if err := fourth.configure(t, joint); err != nil {
		t.Fatal(err)
	}
	next := finish(t, joint, first, second, fourth)
	for _, m := range []*member{first, second, fourth} {
		if err := m.configure(t, next); err != nil {
			t.Fatal(err)
		}
	}
	fourth.await(t, "serves", serves)
	load.join(fourth)
	load.progress(t, 150, first, second, fourth)

	before := load.answered[third.id].Load()
	if err := third.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for name, answer := range late {
		if reply := <-answer; resultOf(reply).Status == register.OK {
			t.Errorf("the suspended member answered an earlier %s with %s", name, text(reply))
		}
	}
	third.await(t, "hears from the others that it was removed", func(s *adminv1.StatusResponse) bool {
		return s.Role == adminv1.Role_REMOVED && s.Digest == next.Digest()
	})
	load.progress(t, 150, first, second, fourth)
	if after := load.answered[third.id].Load(); after != before {
		t.Errorf("the member that was removed answered %d times", after-before)
	}

	members := []*member{first, second, third, fourth}
	for _, m := range members {
		m.kill(t)
	}
	for _, m := range members {
		m.start(t)
	}
	for _, m := range []*member{first, second, fourth} {
		m.await(t, "serves without having been told anything", func(s *adminv1.StatusResponse) bool {
			return serves(s) && s.Digest == next.Digest()
		})
	}
	third.await(t, "stays removed", func(s *adminv1.StatusResponse) bool { return s.Role == adminv1.Role_REMOVED })
	if ready, healthy := third.probe("/readyz"), third.probe("/healthz"); ready != 503 || healthy != 200 {
		t.Errorf("the removed member answers %d to /readyz and %d to /healthz", ready, healthy)
	}
	load.progress(t, 150, first, second, fourth)
	load.finish(t)
}

// load is clients in a closed loop, each of which asks any member.
type load struct {
	recorder *history.Recorder
	mutex    sync.Mutex
	members  []*member
	answered [5]atomic.Int64 // by member: operations that took effect
	stop     atomic.Bool
	clients  sync.WaitGroup
}

func newLoad(t *testing.T, members ...*member) *load {
	t.Helper()
	l := &load{recorder: history.NewRecorder(nil), members: members}
	for client := range 6 {
		spec := workload.Spec{
			Mix: workload.Mix{Read: 40, Write: 40, RMW: 20}, Keys: workload.Uniform, KeyCount: 10, ValueBytes: 8,
			RMWs: workload.RMWAdd,
		}
		operations, err := spec.Generator(client)
		if err != nil {
			t.Fatal(err)
		}
		l.clients.Go(func() { l.run(client, operations) })
	}
	t.Cleanup(func() { l.stop.Store(true); l.clients.Wait() })
	return l
}

func (l *load) run(client int, operations *workload.Generator) {
	draw := rand.New(rand.NewPCG(1, uint64(client)))
	doers := map[view.MemberID]*doer{}
	for !l.stop.Load() {
		l.mutex.Lock()
		m := l.members[draw.IntN(len(l.members))]
		l.mutex.Unlock()
		if doers[m.id] == nil {
			doers[m.id] = &doer{m.connect()}
		}
		op := operations.Next(draw)
		invocation := l.recorder.Invoke(fmt.Sprint("client-", client), m.site, op)
		result := doers[m.id].Do(context.Background(), op)
		invocation.Return(result)
		if result.Status == register.OK {
			l.answered[m.id].Add(1)
		}
	}
	for _, d := range doers { // order is irrelevant: all are closed
		_ = d.Close()
	}
}

// join has clients ask one more member.
func (l *load) join(m *member) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.members = append(l.members, m)
}

// progress waits until that many more operations were answered, and some by each of the members.
func (l *load) progress(t *testing.T, operations int64, members ...*member) {
	t.Helper()
	var start [len(l.answered)]int64
	for i := range l.answered {
		start[i] = l.answered[i].Load()
	}
	enough := func() bool {
		n := int64(0)
		for i := range l.answered {
			n += l.answered[i].Load() - start[i]
		}
		return n >= operations &&
			!slices.ContainsFunc(members, func(m *member) bool { return l.answered[m.id].Load() == start[m.id] })
	}
	for deadline := time.Now().Add(patience); !enough(); time.Sleep(poll) {
		if time.Now().After(deadline) {
			t.Fatalf("within %s members answered, by id, %v operations; at the start it was %v",
				patience, &l.answered, start)
		}
	}
}

// finish ends the load and judges what it saw.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.stop.Store(true)
	l.clients.Wait()
	verdict := history.Check(t.Context(), l.recorder.Operations(), history.Options{Timeout: patience})
	if !verdict.OK() {
		t.Fatalf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	}
	t.Logf("%s: %d operations, %d of unknown outcome, on %d keys", verdict.Outcome, verdict.Operations,
		verdict.Unknown, verdict.Keys)
}
