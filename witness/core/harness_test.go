package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
)

const disk = "d1"

// bench is a witness on a disk that can fail.
type bench struct {
	testing.TB
	config  Config
	w       *Witness
	durable [][]byte
	op      uint64
}

func newBench(t testing.TB, c Config) *bench {
	t.Helper()
	b := &bench{TB: t, config: c}
	b.restart()
	return b
}

// restart loses what is not durable.
func (b *bench) restart() {
	b.Helper()
	w, err := New(b.config)
	if err != nil {
		b.Fatal(err)
	}
	for i, r := range b.durable {
		if err := w.Restore(r); err != nil {
			b.Fatalf("record %d of %d: %v", i, len(b.durable), err)
		}
	}
	b.w = w
}

// compact replaces the log.
func (b *bench) compact() {
	b.durable = b.w.Snapshot()
}

// commit makes effects durable and returns all answers.
func (b *bench) commit(e Effects) []Envelope {
	b.durable = append(b.durable, e.Persist...)
	return append(slices.Clone(e.Send), e.After...)
}

// step asks one question, without making its effects durable.
func (b *bench) step(from uint32, m *witnessv1.Message) Effects {
	b.Helper()
	b.op++
	m.Op = b.op
	b.w.Receive(from, m)
	return b.w.Ready()
}

// ask asks one question and returns its answer.
func (b *bench) ask(from uint32, m *witnessv1.Message) *witnessv1.Message {
	b.Helper()
	answers := b.commit(b.step(from, m))
	if len(answers) != 1 || answers[0].To != from || answers[0].Message.Op != m.Op ||
		answers[0].Message.Kind != m.Kind+1 {
		b.Fatalf("answers to %v: %v", m, answers)
	}
	return answers[0].Message
}

// expect asks one question that is accepted or not; why is part of the reason, or empty if there is none.
func (b *bench) expect(accepted bool, why string, from uint32, m *witnessv1.Message) *witnessv1.Message {
	b.Helper()
	a := b.ask(from, m)
	if a.Accepted != accepted || (why == "") != (a.Refused == "") || !strings.Contains(a.Refused, why) {
		b.Fatalf("%v is answered %v, want accepted %t, refused for %q", m, a, accepted, why)
	}
	return a
}

const (
	master = 1
	client = 2
	part   = 3 // the partition of most tests
)

func question(kind witnessv1.Kind, term uint64) *witnessv1.Message {
	return &witnessv1.Message{Kind: kind, Partition: part, Term: term}
}

func start(term uint64) *witnessv1.Message {
	m := question(witnessv1.Kind_START, term)
	m.Disk = disk
	return m
}

func end(term uint64) *witnessv1.Message      { return question(witnessv1.Kind_END, term) }
func recovery(term uint64) *witnessv1.Message { return question(witnessv1.Kind_RECOVERY_DATA, term) }

func record(term, number uint64, hashes ...uint64) *witnessv1.Message {
	m := question(witnessv1.Kind_RECORD, term)
	m.Id, m.Hashes, m.Request = &witnessv1.ID{Session: 7, Number: number}, hashes, fmt.Append(nil, "request ", number)
	return m
}

func check(term uint64, hashes ...uint64) *witnessv1.Message {
	m := question(witnessv1.Kind_CHECK, term)
	m.Hashes = hashes
	return m
}

// gc drops pairs of a hash and a number.
func gc(term uint64, pairs ...uint64) *witnessv1.Message {
	m := question(witnessv1.Kind_GC, term)
	for i := 0; i < len(pairs); i += 2 {
		m.Drops = append(m.Drops, &witnessv1.Drop{Hash: pairs[i], Id: &witnessv1.ID{Session: 7, Number: pairs[i+1]}})
	}
	return m
}

// numbers are those of the requests in an answer.
func numbers(m *witnessv1.Message) []uint64 {
	var all []uint64
	for _, r := range m.Requests {
		all = append(all, r.Id.Number)
	}
	return all
}

// wantSaved recovers all, page by page.
func (b *bench) wantSaved(term uint64, want ...uint64) {
	b.Helper()
	var got []uint64
	for {
		m := recovery(term)
		m.Offset = uint64(len(got))
		page := b.expect(true, "", master, m)
		if page.Offset != m.Offset {
			b.Fatalf("asked from %d, answered from %d", m.Offset, page.Offset)
		}
		got = append(got, numbers(page)...)
		if page.Last {
			break
		}
	}
	if !slices.Equal(got, want) {
		b.Fatalf("saved: %v, want %v", got, want)
	}
}

func started(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, Config{Disk: disk})
	b.expect(true, "", Manager, start(5))
	return b
}
