package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// load is clients in a closed loop, whose history is judged at the end.
type load struct {
	t        testing.TB
	rmws     bool
	recorder *history.Recorder
	answered atomic.Int64
	longest  atomic.Int64 // time of an operation
	clients  sync.WaitGroup
	stop     context.CancelFunc
	stopped  context.Context
}

func newLoad(t testing.TB, protocol string) *load {
	begin := time.Now()
	l := &load{
		t: t, rmws: protocol != "ABD", recorder: history.NewRecorder(func() time.Duration { return time.Since(begin) }),
	}
	l.stopped, l.stop = context.WithCancel(context.Background())
	t.Cleanup(func() { l.stop(); l.clients.Wait() })
	return l
}

// at adds clients of a member, each of whose operations has to succeed.
func (l *load) at(r *running, clients int) { l.add(r, clients, true) }

// atLeaving adds clients of a member that may go.
func (l *load) atLeaving(r *running, clients int) { l.add(r, clients, false) }

func (l *load) add(r *running, clients int, stays bool) {
	for client := range clients {
		name := fmt.Sprintf("%d-%d", r.config.Self, client)
		l.clients.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(r.config.Self), uint64(client)))
			for n := 0; l.stopped.Err() == nil; n++ {
				result := l.do(r, name, l.operation(draw, fmt.Sprint(name, ".", n)))
				switch {
				case result.Status == register.OK:
					l.answered.Add(1)
				case stays:
					l.t.Errorf("an operation at member %d ended as %s: %s", r.config.Self,
						result.Status, result.Message)
				default:
					time.Sleep(time.Millisecond) // it may be refused for good
				}
			}
		})
	}
}

func (l *load) operation(draw *rand.Rand, unique string) register.Operation {
	op := register.Operation{Kind: register.Read, Key: fmt.Sprint("key-", draw.IntN(4))}
	switch kind := draw.IntN(4); {
	case kind == 0:
		op.Kind, op.Value = register.Write, register.Value(unique)
	case kind == 1 && l.rmws:
		op.Kind, op.Call = register.RMW, register.Call{Function: register.Append, Args: [][]byte{[]byte("+")}}
	}
	return op
}

func (l *load) do(r *running, client string, op register.Operation) register.Result {
	done := make(chan register.Result, 1)
	begin := time.Now()
	invocation := l.recorder.Invoke(client, r.config.Site, op)
	r.node.Submit(op, patience, func(result register.Result) { done <- result })
	result := <-done
	invocation.Return(result)
	for took := int64(time.Since(begin)); ; {
		longest := l.longest.Load()
		if took <= longest || l.longest.CompareAndSwap(longest, took) {
			return result
		}
	}
}

// progress waits until clients got that many more answers.
func (l *load) progress(operations int64) {
	l.t.Helper()
	target := l.answered.Load() + operations
	await(l.t, "clients make progress", func() bool { return l.answered.Load() >= target })
}

func (l *load) judge() {
	l.t.Helper()
	l.stop()
	l.clients.Wait()
	l.t.Logf("%d operations were answered, the slowest after %s", l.answered.Load(), time.Duration(l.longest.Load()))
	verdict := history.Check(context.Background(), l.recorder.Operations(), history.Options{Timeout: patience})
	if !verdict.OK() {
		l.t.Fatalf("%s: %s", verdict.Outcome, verdict.Explanation)
	}
}

// cast is all members that a test has, by ID.
type cast map[view.MemberID]*running

func newCast(t testing.TB, protocol string, durability storage.Durability, size view.MemberID) cast {
	t.Helper()
	all := cast{}
	for id := range size {
		c := waiting(t, id+1, durability)
		c.Protocol = protocol
		all[id+1] = run(t, c)
	}
	return all
}

func (c cast) found(t testing.TB, ids ...view.MemberID) view.View {
	t.Helper()
	var founders []*running
	for _, id := range ids {
		founders = append(founders, c[id])
	}
	return founded(t, founders)
}

// tell gives a view to members, at once.
func (c cast) tell(t testing.TB, v view.View, ids ...view.MemberID) {
	t.Helper()
	var group errgroup.Group
	for _, id := range ids {
		group.Go(func() error { return c[id].configure(t, v) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func members(v view.View) (all []view.MemberID) {
	for _, m := range v.Members {
		all = append(all, m.ID)
	}
	return all
}

// begin makes the joint view in which members join and leave, and gives it to all of them.
func (c cast) begin(t testing.TB, v view.View, join, leave []view.MemberID) view.View {
	t.Helper()
	var newcomers []membership.Founder
	for _, id := range join {
		newcomers = append(newcomers, c[id].founder(t))
	}
	joint, err := membership.Change(v, newcomers, leave)
	if err != nil {
		t.Fatal(err)
	}
	c.tell(t, joint, members(joint)...)
	return joint
}

// settle waits until every member after a change has done its part of it.
func (c cast) settle(t testing.TB, joint view.View) {
	t.Helper()
	await(t, "the change can be finished", func() bool {
		s := membership.Snapshot{View: joint}
		for _, id := range members(joint.After()) {
			got := c[id].status(t)
			s.Members = append(s.Members, membership.MemberReport{
				Member: id, Digest: got.Digest, Settled: got.Change.GetSettled(), Fetched: got.Change.GetFetched(),
			})
		}
		return membership.Decide(s).Kind == membership.Finished
	})
}

// finish makes the view after a change, and gives it to everybody, also to those that left.
func (c cast) finish(t testing.TB, joint view.View) view.View {
	t.Helper()
	next, err := membership.Finish(joint)
	if err != nil {
		t.Fatal(err)
	}
	c.tell(t, next, members(joint)...)
	return next
}

func (c cast) change(t testing.TB, v view.View, join, leave []view.MemberID) view.View {
	t.Helper()
	joint := c.begin(t, v, join, leave)
	c.settle(t, joint)
	return c.finish(t, joint)
}

func (c cast) quorum(t testing.TB, v view.View) {
	t.Helper()
	for _, id := range members(v) {
		await(t, "quorum", func() bool { return c[id].status(t).Quorum })
	}
}

// Three members become five and three again, all of them others in the end, and no client of a member that stays sees
// anything fail.
func TestMembersChangeUnderLoad(t *testing.T) {
	for protocol, durability := range map[string]storage.Durability{"ABD": storage.Memory, "Gryff": storage.Sync} {
		t.Run(protocol, func(t *testing.T) {
			all := newCast(t, protocol, durability, 6)
			v := all.found(t, 1, 2, 3)
			l := newLoad(t, protocol)
			l.at(all[3], 4)
			l.atLeaving(all[1], 2)
			l.atLeaving(all[2], 2)
			l.progress(200)
			v = all.change(t, v, []view.MemberID{4, 5}, nil)
			l.at(all[4], 2)
			l.progress(200)
			v = all.change(t, v, nil, []view.MemberID{1, 2})
			l.progress(200)
			v = all.change(t, v, []view.MemberID{6}, []view.MemberID{5}) // a swap
			l.progress(200)
			l.judge()
			if v.Epoch != 7 || fmt.Sprint(members(v)) != "[3 4 6]" {
				t.Errorf("the view is %+v", v)
			}
			for id, want := range map[view.MemberID]adminv1.Role{
				1: adminv1.Role_REMOVED, 3: adminv1.Role_VOTER, 5: adminv1.Role_REMOVED, 6: adminv1.Role_VOTER,
			} {
				if got := all[id].status(t); got.Role != want || got.Epoch < 5 || got.Change != nil {
					t.Errorf("member %d: %v", id, got)
				}
			}
		})
	}
}

// A change that can't end, since a newcomer is dead, is given up, and those before it go on.
func TestAChangeIsAbandonedUnderLoad(t *testing.T) {
	all := newCast(t, "Gryff", storage.Sync, 4)
	v := all.found(t, 1, 2, 3)
	l := newLoad(t, "Gryff")
	for id := range view.MemberID(3) {
		l.at(all[id+1], 2)
	}
	l.progress(200)
	joint := all.begin(t, v, []view.MemberID{4}, nil)
	l.progress(200)
	all[4].stop()
	if <-all[4].ended; all[4].err != nil {
		t.Fatal(all[4].err)
	}
	l.progress(200)
	v, err := membership.Abandon(joint)
	if err != nil {
		t.Fatal(err)
	}
	all.tell(t, v, 1, 2, 3)
	l.progress(200)
	l.judge()
	all[4] = run(t, all[4].config)
	await(t, "the newcomer learns that it was given up", func() bool {
		return all[4].status(t).Role == adminv1.Role_REMOVED
	})
}

// A member that was away when members changed is told by those that were there.
func TestAMemberThatWasAwayLearnsTheViewFromItsPeers(t *testing.T) {
	all := newCast(t, "Gryff", storage.Sync, 4)
	v := all.found(t, 1, 2, 3)
	all[3].stop()
	if <-all[3].ended; all[3].err != nil {
		t.Fatal(all[3].err)
	}
	newcomer := all[4].founder(t)
	joint, err := membership.Change(v, []membership.Founder{newcomer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all.tell(t, joint, 1, 2, 4)
	all[3] = run(t, all[3].config)
	await(t, "it is told, and does its part", func() bool {
		got := all[3].status(t)
		return got.Digest == joint.Digest() && got.Change != nil && got.Role == adminv1.Role_VOTER
	})
	if got := all[3].status(t); got.Boot != 3 || got.Role != adminv1.Role_VOTER {
		t.Errorf("status: %v", got)
	}
	all.settle(t, joint)
	next, err := membership.Finish(joint)
	if err != nil {
		t.Fatal(err)
	}
	all.tell(t, next, 1)
	for _, id := range members(next) {
		await(t, "it is told by the first", func() bool { return all[id].status(t).Digest == next.Digest() })
	}
	all.quorum(t, next)
}

// A member that left is told so by the others, and is not asked any more.
func TestAMemberThatLeftIsToldByItsPeers(t *testing.T) {
	all := newCast(t, "ABD", storage.Sync, 4)
	joint := all.begin(t, all.found(t, 1, 2, 3), []view.MemberID{4}, []view.MemberID{3})
	all.settle(t, joint)
	next, err := membership.Finish(joint)
	if err != nil {
		t.Fatal(err)
	}
	all.tell(t, next, 1, 2, 4)
	await(t, "it is told", func() bool { return all[3].status(t).Role == adminv1.Role_REMOVED })
	done := make(chan register.Result, 1)
	all[3].node.Submit(register.Operation{Kind: register.Read, Key: "k"}, patience, func(r register.Result) {
		done <- r
	})
	if r := <-done; r.Status != register.Unavailable || !strings.Contains(r.Message, "ask another one") {
		t.Errorf("it answers %s: %s", r.Status, r.Message)
	}
}

// What a removed member had begun is not known to have failed, if others may have heard of it.
func TestARemovedMemberAnswersWhatItHadBegun(t *testing.T) {
	all := newCast(t, "Gryff", storage.Sync, 3)
	v := all.found(t, 1, 2, 3)
	for _, peer := range []uint32{1, 2} {
		_, err := all[3].admin.SetLink(t.Context(),
			&adminv1.SetLinkRequest{Cluster: "c", Member: 3, Peer: peer, Blocked: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	answers := map[string]chan register.Result{}
	for name, op := range map[string]register.Operation{
		"read": {Kind: register.Read, Key: "k"},
		"rmw": {
			Kind: register.RMW, Key: "k", Call: register.Call{Function: register.Append, Args: [][]byte{[]byte("+")}},
		},
	} {
		done := make(chan register.Result, 1)
		answers[name] = done
		all[3].node.Submit(op, patience, func(r register.Result) { done <- r })
	}
	joint := all.begin(t, v, nil, []view.MemberID{3})
	for name, done := range answers {
		if len(done) > 0 {
			t.Errorf("the %s ended with the joint view: %+v", name, <-done)
		}
	}
	all.settle(t, joint)
	all.finish(t, joint)
	for name, want := range map[string]register.Status{"read": register.Unavailable, "rmw": register.Unknown} {
		if r := <-answers[name]; r.Status != want ||
			!strings.Contains(r.Message, "removed by epoch 3, and never serves again; ask another one") {
			t.Errorf("the %s ended as %s: %s", name, r.Status, r.Message)
		}
	}
}

// Members that are gone for good are replaced, one after the other, while no client does anything: what was written
// before is read at the newcomers, even once nobody is left who was there when it was written but one.
func TestReplacementInAnIdleCluster(t *testing.T) {
	for _, protocol := range []string{"ABD", "Gryff"} {
		t.Run(protocol, func(t *testing.T) {
			all := newCast(t, protocol, storage.Sync, 5)
			v := all.found(t, 1, 2, 3)
			if err := all[1].redis(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			for _, lost := range []view.MemberID{3, 2} {
				newcomer := 7 - lost
				all[lost].stop()
				if <-all[lost].ended; all[lost].err != nil {
					t.Fatal(all[lost].err)
				}
				joint, err := membership.Change(v, []membership.Founder{all[newcomer].founder(t)},
					[]view.MemberID{lost})
				if err != nil {
					t.Fatal(err)
				}
				all.tell(t, joint, members(joint.After())...)
				await(t, "the newcomer is ready", func() bool {
					code, _ := all[newcomer].probe("/readyz")
					return code == 200
				})
				all.settle(t, joint)
				if v, err = membership.Finish(joint); err != nil {
					t.Fatal(err)
				}
				all.tell(t, v, members(v)...)
				all.quorum(t, v)
				if got, err := all[newcomer].redis(t).Get(t.Context(), "k").Result(); got != "v" || err != nil {
					t.Errorf("member %d reads %q, %v", newcomer, got, err)
				}
			}
			if v.Epoch != 5 || v.Size() != 3 || v.Index(1) != 0 || v.Index(4) < 0 || v.Index(5) < 0 {
				t.Errorf("the view is %+v", v)
			}
		})
	}
}
