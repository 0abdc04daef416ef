package gus_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", gus.Factory) }

// TestRareMistakes shows, step by step, what random schedules hardly reach: it takes several faults in one order.
func TestRareMistakes(t *testing.T) {
	found := mutants.Build(t)
	for name, factory := range map[string]member.Factory{
		"expose-volatile": gus.Factory, "adopt-own": gus.Factory,
		"held-by-read-quorum": relaxed, "count-votes": relaxed, "rejoin-as-holder": relaxed, "retag-held": relaxed,
	} {
		found.Run(t, name, "gus/"+name, func(t *testing.T) {
			script.Run(t, "testdata/mistakes/"+name+".txt", factory)
		})
	}
}

// TestScriptsRelaxed runs the last three as they are without the mistakes.
func TestScriptsRelaxed(t *testing.T) { script.Run(t, "testdata/relaxed", relaxed) }

// relaxed is Gus of which two members may be lost.
func relaxed(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) member.Inner {
	c.Faults = 2
	return gus.New(c, j, r)
}

// alone is a member, the first if nothing else is said, which talks to nobody but the test, and counts its paths.
type alone struct {
	*gus.Protocol
	journal *protocol.Journal
	disk    protocoltest.Disk
	took    map[string]int
}

func newAlone(n int) *alone { return newMember(1, n, 0) }

func newMember(self view.MemberID, n, faults int) *alone {
	a := &alone{disk: protocoltest.Disk{}, took: map[string]int{}}
	c := protocol.Config{
		Self: self, View: view.View{Cluster: "test", Epoch: 1}, Boot: 1, Retry: time.Second, Faults: faults,
		Count: func(path string) { a.took[path]++ },
	}
	for i := range n {
		id := view.MemberID(i + 1)
		c.View.Members = append(c.View.Members, view.Member{ID: id})
		if id != c.Self {
			c.Nearest = append(c.Nearest, id)
		}
	}
	a.journal = protocol.NewJournal(a.disk)
	a.Protocol = gus.New(c, a.journal, quorum.FirstDisks(c.View))
	return a
}

// turn makes durable what the member asks for.
func (a *alone) turn() protocol.Effects {
	e := a.Ready()
	a.disk.Write(e.Persist)
	a.journal.Persisted(e.Persist.Sequence)
	return e
}

func (a *alone) record(t *testing.T, key string) *peerv1.GusRecord {
	t.Helper()
	r := &peerv1.GusRecord{}
	if err := r.UnmarshalVT(a.disk["u"+key]); err != nil {
		t.Fatal(err)
	}
	return r
}

func message(kind peerv1.Kind, timestamp uint64, by view.MemberID, origin uint64) *peerv1.Message {
	return &peerv1.Message{
		Kind: kind, Key: []byte("k"), Timestamp: timestamp, Writer: uint64(register.NewWriter(uint32(by), 1, 1)),
		Present: true, Value: []byte("v"), Gus: &peerv1.Gus{Origin: origin},
	}
}

func TestRMWIsRefusedAsTheTableSays(t *testing.T) {
	row, err := capability.Find("Gus")
	if err != nil {
		t.Fatal(err)
	}
	a := newAlone(3)
	a.Submit(protocol.Request{Handle: 7, Operation: register.Operation{Kind: register.RMW, Key: "k"}})
	done := a.Ready().Complete
	if len(done) != 1 || done[0].Handle != 7 || done[0].Result.Status != register.Unsupported {
		t.Fatalf("an rmw completed with %+v", done)
	}
	if want := row.Operation(register.RMW).Refusal; done[0].Result.Message != want {
		t.Errorf("the refusal is %q, the table says %q", done[0].Result.Message, want)
	}
	if a.Pending() != 0 {
		t.Errorf("%d operations are pending after a refusal", a.Pending())
	}
}

func TestExpiredOperationsAreForgotten(t *testing.T) {
	a := newAlone(3)
	for i := range 100 {
		kind := register.Read
		if i%2 == 1 {
			kind = register.Write
		}
		a.Submit(protocol.Request{
			Handle: uint64(i), Deadline: protocol.Instant(time.Second + time.Duration(i)),
			Operation: register.Operation{Kind: kind, Key: fmt.Sprint(i % 10)},
		})
		a.turn()
	}
	a.Tick(protocol.Instant(time.Second + 49))
	done := a.turn().Complete
	if len(done) != 50 || a.Pending() != 50 {
		t.Fatalf("%d of 100 expired and %d are pending, want 50 and 50", len(done), a.Pending())
	}
	for i, c := range done {
		want := register.Unavailable
		if i%2 == 1 {
			want = register.Unknown // its WRITE has left
		}
		if c.Handle != uint64(i) || c.Result.Status != want || c.Result.Message == "" {
			t.Errorf("the %d-th to expire is %+v", i, c)
		}
	}
	a.Tick(protocol.Instant(time.Minute))
	if a.turn(); a.Pending() != 0 {
		t.Errorf("%d operations are pending after all deadlines", a.Pending())
	}
}

// What nobody says is final stays, up to a bound; a member that has forgotten says that it can't tell.
func TestUndecidedWritesAreBounded(t *testing.T) {
	const writes = 500
	for _, n := range []int{3, 5} {
		a := newAlone(n)
		born := uint64(0)
		if n == 3 {
			born = 1
		}
		for i := range uint64(writes) {
			m := message(peerv1.Kind_GUS_WRITE, i+1, 2, i+1)
			m.Gus.Born = born
			a.Receive(2, m)
			a.turn()
		}
		r := a.record(t, "k")
		if most := 64; len(r.Writes) > most || n == 5 && len(r.Writes) > 1 {
			t.Errorf("with %d members, %d writes are kept", n, len(r.Writes))
		}
		m := message(peerv1.Kind_GUS_WRITE, 1, 2, 1)
		m.Gus.Born = born
		a.Receive(2, m)
		e := a.turn()
		if answer := e.Send[0].Message.Gus; n == 3 && !answer.Forgotten || answer.Held {
			t.Errorf("with %d members, the answer about the first write is %+v", n, answer)
		}
	}
}

// A writer says which of its writes it has ended: what a member kept of those goes.
func TestEndedWritesGo(t *testing.T) {
	a := newAlone(3)
	for i := range uint64(10) {
		m := message(peerv1.Kind_GUS_WRITE, i+1, 2, i+1)
		m.Gus.Born, m.Gus.Ended = 1, max(i, 4)-4+1 // four are under way at a time
		a.Receive(2, m)
		a.turn()
	}
	if r := a.record(t, "k"); len(r.Writes) != 5 || r.Forgotten != 0 {
		t.Errorf("%d writes are kept, and forgotten is up to %d", len(r.Writes), r.Forgotten)
	}
	a.Receive(2, message(peerv1.Kind_GUS_WRITE, 3, 2, 3)) // one that is ended
	if answer := a.turn().Send[0].Message.Gus; answer.Held {
		t.Errorf("the answer is %+v", answer)
	}
}

// Votes and promises are bounded too, and at rest a record has nothing but the register.
func TestRecordsComeToRest(t *testing.T) {
	a := newAlone(5)
	for i := range uint64(300) {
		lock := message(peerv1.Kind_GUS_LOCK, i+1, 2, i+1)
		lock.Gus.Round, lock.Gus.Proposer = 2, 9
		a.Receive(2, lock)
		commit := message(peerv1.Kind_GUS_COMMIT, i+1, 2, i+1)
		commit.Gus.Round, commit.Gus.Proposer = 2, 9
		a.Receive(2, commit)
		a.turn()
	}
	if r := a.record(t, "k"); len(r.Writes) > 64 || r.Forgotten == 0 || r.Timestamp != 300 {
		t.Errorf("%d writes are kept, the register is at %d, forgotten is up to %d", len(r.Writes), r.Timestamp, r.Forgotten)
	}
	b := newAlone(5)
	b.Receive(2, message(peerv1.Kind_GUS_WRITE, 7, 2, 7))
	b.Receive(3, message(peerv1.Kind_GUS_COMMIT, 9, 3, 6))
	b.turn()
	if r := b.record(t, "k"); len(r.Writes) != 2 || r.Timestamp != 7 {
		t.Errorf("undecided: %+v", r)
	}
	b.Receive(2, message(peerv1.Kind_GUS_FINAL, 7, 2, 7))
	b.Receive(3, message(peerv1.Kind_GUS_FINAL, 9, 3, 6))
	b.turn()
	if r := b.record(t, "k"); len(r.Writes) != 0 || r.Timestamp != 9 || string(r.Value) != "v" {
		t.Errorf("at rest: %+v", r)
	}
}

// A write on which a member has just promised a ballot does not go for those that are kept of the key: whoever has it
// decided would find each time that its promise is forgotten.
func TestAPromiseOutlivesTheBound(t *testing.T) {
	a := newAlone(5)
	ballot := func(kind peerv1.Kind, timestamp uint64, by view.MemberID) *peerv1.Gus {
		m := message(kind, timestamp, by, timestamp)
		m.Gus.Round, m.Gus.Proposer = 2, 9
		a.Receive(2, m)
		e := a.turn()
		return append(e.Send, e.SendAfterPersist...)[0].Message.Gus
	}
	for i := range uint64(100) {
		ballot(peerv1.Kind_GUS_LOCK, i+1, 2)
	}
	if r := a.record(t, "k"); len(r.Writes) != 64 || r.Forgotten != 36 {
		t.Fatalf("%d writes are kept, and forgotten is up to %d", len(r.Writes), r.Forgotten)
	}
	for _, kind := range []peerv1.Kind{peerv1.Kind_GUS_LOCK, peerv1.Kind_GUS_COMMIT} { // older than all that are kept
		if answer := ballot(kind, 36, 3); answer.Forgotten || answer.Refused {
			t.Errorf("%v is answered with %+v", kind, answer)
		}
	}
	if r := a.record(t, "k"); len(r.Writes) != 64 {
		t.Errorf("%d writes are kept", len(r.Writes))
	}
}

// A slow write's COMMIT leaves its value, and its FINAL is lost: once the register is past it and its writer has said
// that it is over, nothing is left. Also if its writer never says so, what is left is bounded.
func TestVotesWithoutFinalGo(t *testing.T) {
	const writes = 300
	for _, n := range []int{4, 5, 7} {
		for _, says := range []bool{true, false} {
			a := newAlone(n)
			for i := range uint64(writes) {
				commit := message(peerv1.Kind_GUS_COMMIT, 10*i+20, 2, 10*i+11)
				commit.Gus.Round, commit.Gus.Proposer = 1, commit.Writer
				a.Receive(2, commit)
				a.turn()
				next := message(peerv1.Kind_GUS_WRITE, 10*i+21, 2, 10*i+21)
				if says {
					next.Gus.Ended = 10*i + 21
				}
				a.Receive(2, next)
				a.turn()
			}
			r, most := a.record(t, "k"), 64
			if says {
				most = 2 // the last one, and what the register has
			}
			if len(r.Writes) > most || r.Timestamp != 10*writes+11 {
				t.Errorf("with %d members, of which the writer says what is over: %v, %d writes are kept, and the register is at %d", n, says, len(r.Writes), r.Timestamp)
			}
			for _, w := range r.Writes {
				if w.Stored {
					t.Errorf("with %d members, the value of write %d is kept beside the register's", n, w.Origin)
				}
			}
		}
	}
}

func TestADamagedRecordStopsTheMember(t *testing.T) {
	for name, step := range map[string]func(*alone){
		"own read": func(a *alone) {
			a.Submit(protocol.Request{Operation: register.Operation{Kind: register.Read, Key: "k"}})
		},
		"own write": func(a *alone) {
			a.Submit(protocol.Request{Operation: register.Operation{Kind: register.Write, Key: "k"}})
		},
		"READ":  func(a *alone) { a.Receive(2, message(peerv1.Kind_GUS_READ, 0, 0, 0)) },
		"WRITE": func(a *alone) { a.Receive(2, message(peerv1.Kind_GUS_WRITE, 9, 2, 9)) },
		"LOCK":  func(a *alone) { a.Receive(2, message(peerv1.Kind_GUS_LOCK, 9, 2, 9)) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAlone(3)
			a.journal.Put([]byte("uk"), []byte{0xff})
			step(a)
			if e := a.Ready(); e.Fault == nil || len(e.Send)+len(e.Complete)+len(e.Persist.Mutations) != 0 {
				t.Errorf("after damage the member does %+v", e)
			}
		})
	}
}

// Whatever arrives, a member neither panics nor leaves what it sends without a kind.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{1, 3, 9, 2, 9, 0, 1}, uint8(3))
	f.Add([]byte{3, 5, 9, 2, 7, 2, 1, 4, 7, 9, 2, 7, 2, 1}, uint8(5))
	f.Fuzz(func(t *testing.T, script []byte, n uint8) {
		a := newAlone(1 + int(n)%7)
		for i := 0; len(script) >= 7; i++ {
			s := script[:7]
			script = script[7:]
			if s[0]&1 == 0 {
				kind := register.Read
				if s[0]&2 == 0 {
					kind = register.Write
				}
				a.Submit(protocol.Request{Handle: uint64(i), Operation: register.Operation{Kind: kind, Key: "k"}})
			}
			m := message(peerv1.Kind_GUS_READ+peerv1.Kind(s[1]%11), uint64(s[2]), view.MemberID(s[3]), uint64(s[4]))
			m.Op = uint64(1)<<56 | uint64(1)<<40 | uint64(s[5]%8)
			m.Gus.Round, m.Gus.Proposer, m.Gus.Born = uint64(s[5]%4), uint64(s[6]), uint64(s[6]&1)
			m.Gus.Held, m.Gus.Final, m.Gus.Refused, m.Same = s[6]&2 != 0, s[6]&4 != 0, s[6]&8 != 0, s[6]&16 != 0
			a.Receive(view.MemberID(2+s[0]%6), m)
			a.Tick(protocol.Instant(i) * protocol.Instant(time.Second))
			for _, envelope := range a.turn().Send {
				if envelope.Message.Gus == nil || envelope.Message.Kind == 0 {
					t.Fatalf("sends %v", envelope.Message)
				}
			}
		}
	})
}

// A write of large values, which was decided under another tag than it began with, waits for fragments when members
// change. In the next view no member knows a vote under that tag any more.
func TestAWriteThatWasDecidedKeepsItsTag(t *testing.T) {
	a := newAlone(3)
	a.Receive(2, message(peerv1.Kind_GUS_WRITE, 19, 2, 19))
	a.turn()
	decided := register.Carstamp{Timestamp: 17, Writer: register.NewWriter(1, 1, 1)}
	a.Submit(protocol.Request{
		Handle: 7, Operation: register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")},
		Resume: a.ResumeWritten(decided),
	})
	e := a.turn()
	done := append(e.Complete, e.CompleteAfterPersist...)
	if len(done) != 1 || done[0].Result.Status != register.OK || done[0].Result.Carstamp != decided {
		t.Errorf("it completes with %+v, want the tag %v", done, decided)
	}
	if len(e.Send)+len(e.SendAfterPersist) > 0 || a.Pending() != 0 {
		t.Errorf("it sends %v %v, and %d are pending", e.Send, e.SendAfterPersist, a.Pending())
	}
}

// Of two members that a newcomer copies, one knows for what a write was decided, and not its value, since a newer write
// came over it; the other one has voted, so that it has the value, and does not know that this was the last ballot. The
// newcomer has both. Else a write that was acknowledged would be on one disk less than promised.
func TestWhoCopiesADecisionAndAVoteHasTheValue(t *testing.T) {
	t.Run("right", func(t *testing.T) {
		if err := copyDecided(); err != nil {
			t.Error(err)
		}
	})
	mutants.Build(t).Run(t, "mistake", "gus/decide-without-value", func(t *testing.T) {
		if copyDecided() == nil {
			t.Error("not found")
		}
	})
}

func copyDecided() error {
	const writer = 1 << 40
	decided := &peerv1.GusRecord{
		Timestamp: 6, Writer: 3 * writer, Present: true, Value: []byte("newer"),
		Writes: []*peerv1.GusWrite{{Origin: 5, Writer: writer, Decided: 10}},
	}
	voted := &peerv1.GusRecord{
		Timestamp: 5, Writer: writer, Present: true, Value: []byte("x"),
		Writes: []*peerv1.GusWrite{{
			Origin: 5, Writer: writer, Held: true, PromisedRound: 3, PromisedProposer: writer, Voted: 10, VotedRound: 3,
			VotedProposer: writer, Stored: true, Present: true, Value: []byte("x"),
		}},
	}
	past := voted.CloneVT() // another write came over the first tag, not over the one that is voted for
	past.Timestamp, past.Writer, past.Value = 7, 2*writer, []byte("between")
	first := voted.CloneVT() // its register has the value, under the first tag
	first.Writes[0].Stored, first.Writes[0].Value, first.Writes[0].Voted = false, nil, 5
	for i, other := range []*peerv1.GusRecord{voted, past, first} {
		for j, order := range [][]*peerv1.GusRecord{{decided, other}, {other, decided}} {
			a := newAlone(5)
			for _, record := range order {
				raw, err := record.MarshalVT()
				if err != nil {
					return err
				}
				if err := a.Adopt([]byte("uk"), raw); err != nil {
					return err
				}
			}
			a.turn()
			a.Receive(2, &peerv1.Message{Kind: peerv1.Kind_GUS_READ, Op: 1, Key: []byte("k"), Gus: &peerv1.Gus{}})
			sent := a.turn()
			answers := slices.Concat(sent.Send, sent.SendAfterPersist)
			if len(answers) != 1 {
				return fmt.Errorf("%d answers", len(answers))
			}
			if m := answers[0].Message; string(m.Value) != "x" || m.Timestamp != 10 || !m.Gus.Final {
				return fmt.Errorf("pair %d, order %d: %q at %d, final: %t", i, j, m.Value, m.Timestamp, m.Gus.Final)
			}
		}
	}
	return nil
}

// A write that goes on in another view takes no tag that another write of its writer had, also if that one ended
// between the views, and nobody who answers knows of it.
func TestAWriteThatGoesOnTakesNoTagOfAnother(t *testing.T) {
	before := newAlone(3)
	before.submit(register.Write, 1, "one", 0)
	other := before.submit(register.Write, 2, "two", 0).Send[0].Message
	a := newAlone(3)
	a.Submit(before.Unfinished()[0])
	lock := a.turn().Send[0].Message
	if lock.Kind != peerv1.Kind_GUS_LOCK || string(lock.Value) != "one" {
		t.Fatalf("the first write goes on with %v", lock)
	}
	m := message(peerv1.Kind_GUS_LOCK_REPLY, lock.Timestamp, 1, lock.Timestamp)
	m.Op, m.Gus.Round, m.Gus.Proposer = lock.Op, lock.Gus.Round, lock.Gus.Proposer
	m.Gus.Newest, m.Gus.NewestWriter = lock.Timestamp, uint64(register.NewWriter(2, 1, 1))
	a.Receive(2, m)
	e := a.turn()
	commit := slices.Concat(e.Send, e.SendAfterPersist)[0].Message
	if commit.Kind != peerv1.Kind_GUS_COMMIT || commit.Timestamp <= other.Timestamp {
		t.Errorf("it goes on with %v at %d, and the other write has %d", commit.Kind, commit.Timestamp, other.Timestamp)
	}
}
