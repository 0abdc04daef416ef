// Package meter counts what a replica does for its clients: operations, latencies, round trips and fast paths,
// by kind, from its start. The difference of two readings describes the time between them.
package meter

import (
	"sync/atomic"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Store carries out operations, as in package server.
type Store interface {
	Submit(op register.Operation, timeout time.Duration, done func(register.Result))
}

// Meter is a Store that counts what passes through to another one.
type Meter struct {
	store Store
	kinds [register.RMW + 1]kindMeter // by register.Kind
}

type kindMeter struct {
	answered   atomic.Uint64
	refused    atomic.Uint64
	unanswered atomic.Uint64
	fast       atomic.Uint64
	roundTrips atomic.Uint64
	latency    [Buckets]atomic.Uint64
}

// New counts what is submitted to a store.
func New(store Store) *Meter { return &Meter{store: store} }

// Submit implements Store.
func (m *Meter) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) {
	if op.Kind > register.RMW { // the store will refuse it
		m.store.Submit(op, timeout, done)
		return
	}
	start := time.Now()
	kind := &m.kinds[op.Kind]
	m.store.Submit(op, timeout, func(result register.Result) {
		kind.count(result, time.Since(start))
		done(result)
	})
}

func (k *kindMeter) count(result register.Result, took time.Duration) {
	switch result.Status {
	case register.OK, register.Failed:
		k.answered.Add(1)
	case register.Invalid, register.Unsupported:
		k.refused.Add(1)
		return
	default:
		k.unanswered.Add(1)
		return
	}
	k.roundTrips.Add(uint64(result.RoundTrips))
	if result.Fast {
		k.fast.Add(1)
	}
	k.latency[bucket(took)].Add(1)
}

// Reading is the counts of one kind of operations.
type Reading struct {
	Answered   uint64   // with an answer; a function's refusal is one
	Refused    uint64   // invalid or unsupported
	Unanswered uint64   // unavailable, or of unknown outcome
	Fast       uint64   // of the answered: took the protocol's fast path
	RoundTrips uint64   // of the answered: wide-area ones, summed up
	Latency    []uint64 // of the answered: how many in each bucket; shorter than Buckets if the rest is 0
}

// Read returns the counts so far of one kind. Concurrent operations may be counted in a part of the fields.
func (m *Meter) Read(kind register.Kind) Reading {
	k := &m.kinds[kind]
	r := Reading{
		Answered: k.answered.Load(), Refused: k.refused.Load(), Unanswered: k.unanswered.Load(),
		Fast: k.fast.Load(), RoundTrips: k.roundTrips.Load(),
	}
	for i := range k.latency {
		if n := k.latency[i].Load(); n > 0 {
			r.Latency = append(r.Latency, make([]uint64, i+1-len(r.Latency))...)
			r.Latency[i] = n
		}
	}
	return r
}

// Plus adds two readings of different kinds or members.
func (r Reading) Plus(s Reading) Reading {
	return r.combine(s, func(a, b uint64) uint64 { return a + b })
}

// Since is what happened since an earlier reading of the same process; if the process has restarted in
// between, pass the zero Reading.
func (r Reading) Since(earlier Reading) Reading {
	return r.combine(earlier, func(a, b uint64) uint64 { return a - min(a, b) })
}

func (r Reading) combine(s Reading, by func(a, b uint64) uint64) Reading {
	out := Reading{
		Answered: by(r.Answered, s.Answered), Refused: by(r.Refused, s.Refused),
		Unanswered: by(r.Unanswered, s.Unanswered),
		Fast:       by(r.Fast, s.Fast), RoundTrips: by(r.RoundTrips, s.RoundTrips),
		Latency: make([]uint64, max(len(r.Latency), len(s.Latency))),
	}
	at := func(counts []uint64, i int) uint64 {
		if i < len(counts) {
			return counts[i]
		}
		return 0
	}
	for i := range out.Latency {
		out.Latency[i] = by(at(r.Latency, i), at(s.Latency, i))
	}
	return out
}
