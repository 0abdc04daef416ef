package gus_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

func (a *alone) submit(kind register.Kind, handle uint64, value string, deadline time.Duration) protocol.Effects {
	r := protocol.Request{Handle: handle, Deadline: protocol.Instant(deadline), Operation: register.Operation{Kind: kind, Key: "k"}}
	if kind == register.Write {
		r.Operation.Value = register.Value(value)
	}
	a.Submit(r)
	return a.turn()
}

// hears has it receive a message of member 2 about the write that began with a timestamp, and returns what completes.
func (a *alone) hears(kind peerv1.Kind, timestamp uint64) []protocol.Completion {
	m := message(kind, timestamp, 2, timestamp)
	m.Value = fmt.Append(nil, "v", timestamp)
	a.Receive(2, m)
	return completed(a.turn())
}

func completed(e protocol.Effects) []protocol.Completion {
	return slices.Concat(e.Complete, e.CompleteAfterPersist)
}

func (a *alone) knows(value string) bool {
	values, _ := a.Known([]byte("k"))
	return slices.ContainsFunc(values, func(v register.Value) bool { return string(v) == value })
}

// A read that waits may return what becomes final meanwhile though the register is past it: of the last 16 writes that
// came.
func TestAReadRemembersTheLastWrites(t *testing.T) {
	const writes, kept = 40, 16
	a := newAlone(5)
	read := a.submit(register.Read, 1, "", 0).Send[0].Message
	a.hears(peerv1.Kind_GUS_WRITE, 1)
	for _, from := range []view.MemberID{2, 3} {
		m := message(peerv1.Kind_GUS_READ_REPLY, 1, 2, 1)
		m.Op = read.Op
		a.Receive(from, m)
	}
	for i := range uint64(writes - 1) {
		a.hears(peerv1.Kind_GUS_WRITE, i+2)
	}
	if a.took["read.waits"] != 1 || a.Pending() != 1 {
		t.Fatalf("the read does not wait: %v", a.took)
	}
	for i := range uint64(writes) {
		// The first one is what the read found.
		if known := a.knows(fmt.Sprint("v", i+1)); known != (i >= writes-kept) && i != 0 {
			t.Errorf("write %d of %d is known: %v", i+1, writes, known)
		}
	}
	if done := a.hears(peerv1.Kind_GUS_FINAL, writes-kept); len(done) != 0 {
		t.Errorf("a write that was followed by %d more ends the read with %+v", kept, done)
	}
	done := a.hears(peerv1.Kind_GUS_FINAL, writes-kept+1)
	if len(done) != 1 || string(done[0].Result.Value) != fmt.Sprint("v", writes-kept+1) || done[0].Result.Carstamp.Timestamp != writes-kept+1 {
		t.Errorf("a write that was followed by %d more ends the read with %+v", kept-1, done)
	}
}

// The values go with the last read, also if a write of the key goes on.
func TestWritesAreRememberedForReadsAlone(t *testing.T) {
	a := newAlone(5)
	a.submit(register.Write, 1, "own", 0)
	a.submit(register.Read, 2, "", time.Second)
	a.submit(register.Read, 3, "", 2*time.Second)
	for i := range uint64(3) {
		a.hears(peerv1.Kind_GUS_WRITE, 10+i)
	}
	for _, reads := range []int{2, 1, 0} {
		a.Tick(protocol.Instant(2-reads) * protocol.Instant(time.Second))
		a.turn()
		if a.Pending() != 1+reads || a.knows("v10") != (reads > 0) || !a.knows("v12") {
			t.Errorf("with %d of 2 reads, %d operations are pending, and the first write is known: %v", reads, a.Pending(), a.knows("v10"))
		}
	}
	a.hears(peerv1.Kind_GUS_WRITE, 20)
	a.hears(peerv1.Kind_GUS_WRITE, 21)
	if a.knows("v20") {
		t.Error("without a read, a write is remembered that the register is past")
	}
}

// answers has members say something of a write that is under way, and returns what completes.
func (a *alone) answers(write *peerv1.Message, says *peerv1.Gus, members ...view.MemberID) (done []protocol.Completion) {
	for _, from := range members {
		m := message(peerv1.Kind_GUS_WRITE_REPLY, write.Timestamp, 1, write.Timestamp)
		m.Op = write.Op
		m.Gus.Held, m.Gus.Forgotten, m.Gus.Newest = says.Held, says.Forgotten, says.Newest
		a.Receive(from, m)
		done = append(done, completed(a.turn())...)
	}
	return done
}

var (
	held      = &peerv1.Gus{Held: true}
	stale     = &peerv1.Gus{Newest: 7}
	forgotten = &peerv1.Gus{Forgotten: true, Newest: 7}
)

// endsUnknown checks that a write was given up, for a reason, and that the next one has a tag of its own.
func (a *alone) endsUnknown(t *testing.T, write *peerv1.Message, done []protocol.Completion, why string) {
	t.Helper()
	if len(done) != 1 || done[0].Handle != 1 || done[0].Result.Status != register.Unknown || !strings.Contains(done[0].Result.Message, why) {
		t.Fatalf("it ended with %+v, want unknown: %s", done, why)
	}
	if a.Pending() != 0 || a.took["unknown"] != 1 {
		t.Errorf("%d operations are pending, and paths are %v", a.Pending(), a.took)
	}
	if next := a.submit(register.Write, 2, "w", 0).Send[0].Message; next.Timestamp <= write.Timestamp {
		t.Errorf("the next write has timestamp %d, after one with %d", next.Timestamp, write.Timestamp)
	}
}

// With relaxed quorums a majority may have answered and leave open what the tag is to be. The others are asked 8 times.
func TestAWriteIsGivenUpIfTooManyAreAway(t *testing.T) {
	a := newMember(1, 7, 2)
	write := a.submit(register.Write, 1, "w", 0).Send[0].Message
	if done := append(a.answers(write, held, 2, 3), a.answers(write, stale, 4)...); len(done) != 0 {
		t.Fatalf("three answers end it with %+v", done)
	}
	for i := range 7 {
		a.Tick(protocol.Instant(i+1) * protocol.Instant(time.Second))
		e := a.turn()
		if len(e.Send) != 3 || len(completed(e)) != 0 || a.Pending() != 1 {
			t.Fatalf("the %d-th time, it asks %d members, and ends %+v", i+1, len(e.Send), completed(e))
		}
	}
	a.Tick(protocol.Instant(8 * time.Second))
	a.endsUnknown(t, write, completed(a.turn()), "more than 2 of 7 members are away")
}

// As long as no majority has answered it goes on, whatever the quorums: whoever comes back ends it.
func TestAWriteIsNotGivenUpWithoutAMajority(t *testing.T) {
	for _, c := range []struct{ n, faults int }{{7, 2}, {7, 0}, {5, 0}, {3, 0}} {
		a := newMember(1, c.n, c.faults)
		write := a.submit(register.Write, 1, "w", 0).Send[0].Message
		others := []view.MemberID{2, 3, 4}[:c.n/2]
		a.answers(write, held, others[1:]...)
		for i := range 20 {
			a.Tick(protocol.Instant(i+1) * protocol.Instant(time.Second))
			if done := completed(a.turn()); len(done) != 0 {
				t.Fatalf("of %d members, after %d times, it ends with %+v", c.n, i+1, done)
			}
		}
		if done := a.answers(write, held, others[0]); len(done) != 1 || done[0].Result.Status != register.OK {
			t.Errorf("of %d members, it ends with %+v", c.n, done)
		}
	}
}

// Who lost its disk can't tell how it has voted. When all have answered, and too many of them so, nobody is left to be
// waited for.
func TestAWriteIsGivenUpIfMembersLostTheirDisks(t *testing.T) {
	a := newMember(1, 7, 2)
	write := a.submit(register.Write, 1, "w", 0).Send[0].Message
	done := slices.Concat(a.answers(write, held, 2, 3), a.answers(write, stale, 4), a.answers(write, forgotten, 5, 6))
	if len(done) != 0 || a.Pending() != 1 {
		t.Fatalf("before the last answer, it ends with %+v", done)
	}
	a.endsUnknown(t, write, a.answers(write, forgotten, 7), "members lost their disks")
}

// READ brings a value of up to 64 KiB, and who has less adopts it: one round trip. A larger one is brought only when
// that was not enough.
func TestReadsBringSmallValuesAtOnce(t *testing.T) {
	for _, c := range []struct{ size, trips int }{{1, 1}, {64 << 10, 1}, {64<<10 + 1, 2}, {1 << 20, 2}} {
		one, two := newMember(1, 3, 0), newMember(2, 3, 0)
		write := message(peerv1.Kind_GUS_WRITE, 5, 3, 5) // of member 3, which says no more
		write.Value, write.Gus.Born = bytes.Repeat([]byte("v"), c.size), 1
		one.Receive(3, write)
		one.turn()
		e, brought := one.submit(register.Read, 1, "", 0), []int(nil)
		var done []protocol.Completion
		for round := 0; round < 10 && len(e.Send)+len(e.SendAfterPersist) > 0; round++ {
			for _, envelope := range slices.Concat(e.Send, e.SendAfterPersist) {
				if envelope.To != 2 {
					continue
				}
				if m := envelope.Message; m.Kind == peerv1.Kind_GUS_READ {
					brought = append(brought, len(m.Value))
				}
				two.Receive(1, envelope.Message)
			}
			answers := two.turn()
			for _, envelope := range slices.Concat(answers.Send, answers.SendAfterPersist) {
				if envelope.To == 1 {
					one.Receive(2, envelope.Message)
				}
			}
			e = one.turn()
			done = append(done, completed(e)...)
		}
		want := []int{0, c.size}[2-c.trips:]
		if !slices.Equal(brought, want) {
			t.Errorf("of %d bytes, READs bring %v, want %v", c.size, brought, want)
		}
		if len(done) != 1 || done[0].Result.RoundTrips != c.trips || len(done[0].Result.Value) != c.size {
			t.Errorf("of %d bytes, %d reads end, want one in %d round trips", c.size, len(done), c.trips)
		}
		if r := two.record(t, "k"); len(r.Value) != c.size {
			t.Errorf("the other one has %d of %d bytes", len(r.Value), c.size)
		}
	}
}

// A write that so many have forgotten that no quorum can tell what became of it ends, and so does one that the others
// are too far away to decide; nobody can know whether it took effect. One that a quorum can still decide goes on.
func TestAForgottenWriteEnds(t *testing.T) {
	for _, c := range []struct {
		n      int
		forget []view.MemberID
	}{{3, []view.MemberID{2, 3}}, {4, []view.MemberID{2, 3}}, {5, []view.MemberID{2, 3, 4}}, {7, []view.MemberID{2, 3, 4, 5}}} {
		a := newMember(1, c.n, 0)
		write := a.submit(register.Write, 1, "w", 0).Send[0].Message
		last := len(c.forget) - 1
		if done := a.answers(write, forgotten, c.forget[:last]...); len(done) != 0 || a.Pending() != 1 {
			t.Fatalf("of %d members, %d of which have forgotten it, it ends with %+v", c.n, last, done)
		}
		a.endsUnknown(t, write, a.answers(write, forgotten, c.forget[last]), "no longer know")
	}
	a := newMember(1, 3, 0)
	write := a.submit(register.Write, 1, "w", 0).Send[0].Message
	for i := range 12 { // one has forgotten it from the 4th time on, and the other is away
		if i >= 4 {
			a.answers(write, forgotten, 2)
		}
		a.Tick(protocol.Instant(i+1) * protocol.Instant(time.Second))
		if done := completed(a.turn()); len(done) > 0 {
			if i != 11 {
				t.Errorf("it ends at the %d-th time", i+1)
			}
			a.endsUnknown(t, write, done, "others are away")
		}
	}
	b := newMember(1, 3, 0)
	write = b.submit(register.Write, 1, "w", 0).Send[0].Message
	b.answers(write, forgotten, 2)
	if done := b.answers(write, held, 3); len(done) != 1 || done[0].Result.Status != register.OK {
		t.Errorf("with a quorum of others it ends with %+v", done)
	}
}

// A read leaves out a tag that one member has voted for, once so many have forgotten the write while they are below
// that tag that no quorum can have voted for it, and none will. It returns the largest of the others.
func TestAReadLeavesOutWhatNobodyCanDecide(t *testing.T) {
	a := newAlone(5)
	read := a.submit(register.Read, 1, "", 0).Send[0].Message
	says := func(kind peerv1.Kind, timestamp, origin uint64, op uint64, final bool, from view.MemberID) []protocol.Completion {
		m := message(kind, timestamp, 2, origin)
		m.Op, m.Gus.Final, m.Value = op, final, fmt.Append(nil, "v", timestamp)
		a.Receive(from, m)
		return completed(a.turn())
	}
	says(peerv1.Kind_GUS_READ_REPLY, 9, 5, read.Op, false, 2) // a vote for the second tag of a write
	if done := says(peerv1.Kind_GUS_READ_REPLY, 7, 7, read.Op, true, 3); len(done) != 0 {
		t.Fatalf("it ends with %+v, though the largest tag is undecided", done)
	}
	var lock *peerv1.Message
	for i := 0; i < 10 && lock == nil; i++ {
		a.Tick(protocol.Instant(i+1) * protocol.Instant(time.Second))
		for _, envelope := range a.turn().Send {
			if envelope.Message.Kind == peerv1.Kind_GUS_LOCK {
				lock = envelope.Message
			}
		}
	}
	if lock == nil || lock.Timestamp != 9 || lock.Gus.Origin != 5 {
		t.Fatalf("it has nothing decided: %+v", lock)
	}
	for i, from := range []view.MemberID{3, 4, 5} {
		m := message(peerv1.Kind_GUS_LOCK_REPLY, 9, 2, 5)
		m.Op, m.Gus.Forgotten, m.Gus.Newest, m.Gus.NewestWriter = lock.Op, true, 7, m.Writer
		a.Receive(from, m)
		if took := a.took["read.below"]; took != i/2 { // three of five meet every quorum
			t.Fatalf("after %d have forgotten it, it was left out %d times", i+1, took)
		}
	}
	a.turn()
	if done := says(peerv1.Kind_GUS_READ_REPLY, 9, 5, read.Op, false, 2); len(done) != 0 {
		t.Fatalf("the vote ends it with %+v", done)
	}
	for i, from := range []view.MemberID{3, 4} {
		done := says(peerv1.Kind_GUS_READ_REPLY, 7, 7, read.Op, true, from)
		if i == 0 && len(done) != 0 {
			t.Fatalf("two answers, of which one is its own, end it with %+v", done)
		}
		if i == 1 && (len(done) != 1 || string(done[0].Result.Value) != "v7" || done[0].Result.Carstamp.Timestamp != 7) {
			t.Fatalf("it ends with %+v, want v7", done)
		}
	}
}

// What is below that, and undecided, is decided by those that have nothing above it, whatever the one that voted has:
// that would answer first each time, and the read would begin anew for good.
func TestAReadDecidesWhatIsBelow(t *testing.T) {
	a := newAlone(5)
	now := protocol.Instant(0)
	read := a.submit(register.Read, 1, "", 0).Send[0].Message
	asks := func(kind peerv1.Kind, timestamp uint64) *peerv1.Message {
		t.Helper()
		for range 10 {
			for _, envelope := range a.tick(&now) {
				if m := envelope.Message; m.Kind == kind && (kind == peerv1.Kind_GUS_READ || m.Timestamp == timestamp) {
					return m
				}
			}
		}
		t.Fatalf("it sends no %v of tag %d: %v", kind, timestamp, a.took)
		return nil
	}
	says := func(to *peerv1.Message, timestamp, origin uint64, says *peerv1.Gus, members ...view.MemberID) {
		for _, from := range members {
			m := message(to.Kind+1, timestamp, 2, origin)
			m.Op, m.Gus = to.Op, says.CloneVT()
			m.Gus.Origin, m.Gus.Round, m.Gus.Proposer, m.Gus.NewestWriter = origin, to.Gus.Round, to.Gus.Proposer, m.Writer
			a.Receive(from, m)
		}
	}
	undecided := &peerv1.Gus{}
	says(read, 9, 5, undecided, 2) // a vote for the second tag of a write
	says(read, 7, 7, undecided, 3) // another write
	says(asks(peerv1.Kind_GUS_LOCK, 9), 9, 5, &peerv1.Gus{Forgotten: true, Newest: 7}, 3, 4, 5)
	read = asks(peerv1.Kind_GUS_READ, 0)
	says(read, 9, 5, undecided, 2)
	says(read, 7, 7, undecided, 3, 4, 5)
	lock := asks(peerv1.Kind_GUS_LOCK, 7)
	says(lock, 7, 7, &peerv1.Gus{Newest: 9}, 2)
	says(lock, 7, 7, &peerv1.Gus{Newest: 7}, 3)
	says(lock, 7, 7, &peerv1.Gus{Newest: 7}, 4)
	commit := asks(peerv1.Kind_GUS_COMMIT, 7)
	says(commit, 7, 7, undecided, 2, 3)
	done := completed(a.turn())
	if len(done) != 1 || done[0].Result.Carstamp.Timestamp != 7 {
		t.Errorf("it ends with %+v, want what has tag 7", done)
	}
}

// tick lets a second pass, and returns what the member sends then.
func (a *alone) tick(now *protocol.Instant) []protocol.Envelope {
	*now = now.Add(time.Second)
	a.Tick(*now)
	e := a.turn()
	return append(e.Send, e.SendAfterPersist...)
}
