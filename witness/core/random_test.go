package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
)

// promises are what askers were told of one life, whatever the witness thinks.
type promises struct {
	saved map[uint64]uint64 // numbers of requests that were accepted, to their hashes
	asked map[uint64]bool   // numbers that were ever sent
	gone  map[uint64]bool   // numbers that a GC named, correctly
	read  bool              // a page of recovery was answered
	ended bool              // an END was sent
	begun bool              // a START was answered
}

// A witness that crashes, and loses what was not durable, keeps what it promised: what it accepted is recovered until
// it is collected, and nothing is accepted after a page was answered.
func TestPromisesSurviveCrashes(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 7))
		b := newBench(t, Config{Slots: 16, Disk: disk, Lives: 3})
		told := map[uint64]*promises{}
		life := func(term uint64) *promises {
			if told[term] == nil {
				told[term] = &promises{saved: map[uint64]uint64{}, asked: map[uint64]bool{}, gone: map[uint64]bool{}}
			}
			return told[term]
		}
		var flying []Effects // in order; a crash loses them
		questions := map[uint64]*witnessv1.Message{}
		hear := func(answers []Envelope) {
			for _, a := range answers {
				m, q := a.Message, questions[a.Message.Op]
				l := life(q.Term)
				switch {
				case !m.Accepted:
					continue
				case q.Kind == witnessv1.Kind_RECORD:
					if l.read {
						t.Fatalf("seed %d: %v accepted after a page was answered", seed, q)
					}
					l.saved[q.Id.Number] = q.Hashes[0]
				case q.Kind == witnessv1.Kind_START:
					l.begun = true
				case q.Kind == witnessv1.Kind_CHECK:
					for number, hash := range l.saved {
						if !l.gone[number] && hash == q.Hashes[0] {
							t.Fatalf("seed %d: %v accepted, though %d is saved", seed, q, number)
						}
					}
				case q.Kind == witnessv1.Kind_RECOVERY_DATA:
					l.read = true
					if !m.Last {
						t.Fatal("these few fit a page")
					}
					got := numbers(m)
					for number := range l.saved {
						if !l.gone[number] && !slices.Contains(got, number) {
							t.Fatalf("seed %d: %d was accepted, and %v recovered", seed, number, got)
						}
					}
					for _, number := range got {
						if !l.asked[number] {
							t.Fatalf("seed %d: %d was never sent, but recovered", seed, number)
						}
					}
				}
				counts[q.Kind.String()]++
			}
		}
		commit := func() {
			for _, e := range flying {
				b.durable = append(b.durable, e.Persist...)
				hear(e.After)
			}
			flying = nil
		}
		for range 400 {
			term := 1 + r.Uint64N(4)
			l := life(term)
			number := 1 + r.Uint64N(40)
			hash := rand.New(rand.NewPCG(seed, number)).Uint64N(12)
			var m *witnessv1.Message
			from := uint32(client)
			switch k := r.IntN(100); {
			case k < 50:
				m = record(term, number, hash)
				l.asked[number] = true
			case k < 65:
				m = gc(term, hash, number)
				l.gone[number] = true
			case k < 75:
				m = check(term, hash)
			case k < 85:
				from, m = Manager, start(term)
			case k < 87:
				if m = recovery(term); r.IntN(2) == 0 {
					m.Disk = disk // then a life that never began has saved nothing
				}
			case k < 88:
				from, m = Manager, end(term)
				l.ended = true
			case k < 94:
				commit()
				continue
			case k < 97:
				b.w.Ready() // nothing is left of it
				flying = nil
				b.restart()
				counts["crash"]++
				continue
			default:
				commit()
				b.compact()
				continue
			}
			b.op++
			m.Op = b.op
			questions[m.Op] = m
			b.w.Receive(from, m)
			e := b.w.Ready()
			hear(e.Send)
			flying = append(flying, e)
		}
		commit()
		b.restart()
		for term := range uint64(5) {
			if l := told[term]; l != nil && l.begun && !l.ended {
				q := recovery(term)
				questions[b.op+1] = q
				hear([]Envelope{{Message: b.expect(true, "", master, q)}})
			}
		}
	}
	for _, what := range []string{"RECORD", "RECOVERY_DATA", "CHECK", "GC", "START", "END", "crash"} {
		if counts[what] < 20 {
			t.Errorf("%s came %d times: this proves nothing", what, counts[what])
		}
	}
}

// state prints all that a witness promises.
func state(w *Witness) string {
	text := ""
	for _, r := range w.Snapshot() {
		text += fmt.Sprintf("%x\n", r)
	}
	return text
}

// A snapshot restores the state of which it was taken, and so does the log.
func TestRestoringIsExact(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 8))
		b := newBench(t, Config{Slots: 16})
		for range 300 {
			term, number := 1+r.Uint64N(3), r.Uint64N(60)
			of := rand.New(rand.NewPCG(seed, number))
			a, z := of.Uint64N(30), of.Uint64N(30)
			switch k := r.IntN(20); {
			case k < 12:
				b.ask(client, record(term, number, a, z))
			case k < 17:
				b.ask(master, gc(term, a, number))
			case k < 19:
				b.ask(Manager, start(term))
			case r.IntN(4) == 0:
				b.ask(Manager, end(term))
			case r.IntN(4) == 0:
				b.ask(master, recovery(term))
			}
		}
		want := state(b.w)
		b.restart()
		if got := state(b.w); got != want {
			t.Fatalf("seed %d: the log restores\n%swant\n%s", seed, got, want)
		}
		b.compact()
		b.restart()
		if got := state(b.w); got != want {
			t.Fatalf("seed %d: the snapshot restores\n%swant\n%s", seed, got, want)
		}
	}
}

// FuzzMessages: whatever is asked, what is durable restores the same state.
func FuzzMessages(f *testing.F) {
	for _, m := range []*witnessv1.Message{
		start(5), record(5, 1, 10), gc(5, 10, 1), check(5, 20), recovery(5), end(5),
	} {
		data, err := m.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(m.Kind), data, data)
	}
	f.Fuzz(func(t *testing.T, from uint8, first, second []byte) {
		b := newBench(t, Config{Slots: 8, Lives: 2})
		b.expect(true, "", Manager, start(5))
		for _, data := range [][]byte{first, second, first} {
			m := &witnessv1.Message{}
			if m.UnmarshalVT(data) != nil {
				return
			}
			b.w.Receive(uint32(from%3), m)
			for _, a := range b.commit(b.w.Ready()) {
				if a.Message.Op != m.Op || a.Message.Kind != m.Kind+1 || a.Message.Accepted && a.Message.Refused != "" {
					t.Fatalf("%v is answered %v", m, a.Message)
				}
			}
		}
		want := state(b.w)
		b.restart()
		if got := state(b.w); got != want {
			t.Fatalf("restored\n%swant\n%s", got, want)
		}
	})
}

// A log that tells of a term or a number of promises that nobody can have come to is no witness's.
func TestALogAboveTheBoundIsNotRestored(t *testing.T) {
	for _, test := range []struct {
		kind  byte
		bound uint64
		rest  []byte
	}{
		{recordStarted, witnessv1.MaxTerm, []byte{16, 0}}, {recordEnded, witnessv1.MaxTerm, nil},
		{recordBarred, witnessv1.MaxTerm, nil},
		{recordPromises, witnessv1.MaxPromises, nil},
	} {
		for number, want := range map[uint64]bool{test.bound: true, test.bound + 1: false, 1<<64 - 1: false} {
			b := newBench(t, Config{Slots: 16})
			if err := b.w.Restore(append(appendHead(nil, test.kind, 5, number), test.rest...)); (err == nil) != want {
				t.Errorf("kind %d with %d: %v", test.kind, number, err)
			}
		}
	}
}

// FuzzRestore: no record makes a witness fail other than by an error.
func FuzzRestore(f *testing.F) {
	w, err := New(Config{Slots: 16})
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range []*witnessv1.Message{start(5), record(5, 1, 10), gc(5, 10, 1), recovery(5), end(5), end(9)} {
		from := uint32(client)
		if m.Kind == witnessv1.Kind_START || m.Kind == witnessv1.Kind_END {
			from = Manager
		}
		w.Receive(from, m)
		for _, r := range w.Ready().Persist {
			f.Add(r, r)
		}
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		b := newBench(t, Config{Slots: 16})
		b.expect(true, "", Manager, start(5))
		b.expect(true, "", client, record(5, 1, 10))
		for _, record := range [][]byte{first, second} {
			if b.w.Restore(record) != nil {
				return
			}
		}
		want := state(b.w)
		b.compact()
		b.restart()
		if got := state(b.w); got != want {
			t.Fatalf("restored\n%swant\n%s", got, want)
		}
	})
}
