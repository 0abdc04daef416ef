// Package core is a CURP witness as a deterministic state machine: it is told what is asked, and answers with what must
// be durable before which answers may leave. It has no clock, no goroutine, no socket and no disk.
package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/cache"
)

// Manager is who may begin and end lives, as the asker of a message.
const Manager uint32 = 0

// The defaults of Config.
const (
	DefaultLives  = 256
	DefaultMemory = 1 << 30
)

const (
	// maxPartitions bounds the numbers of partitions.
	maxPartitions = 1 << 16
	// pageBytes and pageRequests bound an answer that carries requests. One request always fits.
	pageBytes    = 256 << 10
	pageRequests = 512
	// maxDrops bounds what one GC drops.
	maxDrops = 1 << 16
)

// Config says how much a witness holds, and what its answers wait for.
type Config struct {
	Slots  int   // of each life that begins, a power of two; 0: cache.DefaultSlots
	Lives  int   // at most; 0: DefaultLives
	Memory int64 // of all lives together, bytes; 0: DefaultMemory
	// Disk is the witness's, as view.Witness.Disk names it. A START that means another one is refused. Empty: it isn't
	// looked at.
	Disk string
	// Start is a number of this start, at random, of a witness whose disk may be an older copy of what it was: it
	// promises nothing in a partition before members have vouched for it there. Zero: the disk is a new one.
	Start uint64
	// Volatile makes nothing durable and lets all answers leave at once: a witness that stops has lost what it saved,
	// and must come back with another Disk.
	Volatile bool
}

// Envelope is an answer on its way.
type Envelope struct {
	To      uint32 // who asked
	Stream  uint32 // what ReceiveOn was told
	Message *witnessv1.Message
}

// Effects are what must happen now.
type Effects struct {
	Send []Envelope // these leave at once
	// Persist are records of the witness's own log, in order; none is changed or dropped without all that follow it.
	Persist [][]byte
	// After leave once Persist, and all that was to be persisted before, is durable. If After is empty, Persist may
	// wait for what is persisted next.
	After []Envelope
	// Forgotten, if not nil, says that the disk is lost: nothing of these effects, nor of earlier ones, may leave any
	// more.
	Forgotten *Forgotten

	memory []byte // holds Persist
}

// life is one (partition, term): a master's records, in normal mode or, irreversibly, in recovery mode.
type life struct {
	number uint32
	term   uint64
	cache  *cache.Cache
	frozen bool
	order  []int32 // of recovery's pages; nil before the first
}

// partition is what is known of one.
type partition struct {
	// The highest term that was ever begun or ended, or asked for in a recovery: nothing up to it begins any more.
	highest uint64
	ended   uint64  // the highest term that was ever ended
	lives   []*life // by term
	// promises is how many were ever made on this disk.
	promises uint64
	vouchers vouchers
}

// Witness serves any number of masters. It is not safe for concurrent use.
type Witness struct {
	config     Config
	budget     cache.Budget
	partitions []partition // by number, up to the highest of which anything is known
	effects    Effects
	unused     []*witnessv1.Message // answers for reuse
	stats      Stats
	forgotten  *Forgotten
}

// New makes a witness without lives.
func New(c Config) (*Witness, error) {
	c.Slots, c.Lives = cmp.Or(c.Slots, cache.DefaultSlots), cmp.Or(c.Lives, DefaultLives)
	c.Memory = cmp.Or(c.Memory, DefaultMemory)
	if err := cache.CheckSlots(c.Slots); err != nil {
		return nil, err
	}
	if c.Lives < 0 || c.Memory < 0 {
		return nil, errors.New("lives and memory can't be negative; leave them out for the defaults")
	}
	return &Witness{config: c, budget: cache.Budget{Limit: c.Memory}}, nil
}

// Ready takes the effects of what was received. They are the caller's.
func (w *Witness) Ready() Effects {
	e := w.effects
	w.effects = Effects{}
	if w.forgotten != nil {
		return Effects{Forgotten: w.forgotten}
	}
	return e
}

// Reuse gives effects back that nobody looks at any more, answers and records included, so that the next ones need no
// new memory. It is never necessary. A part of them can be given back in Effects of its own, each only once.
func (w *Witness) Reuse(e Effects) {
	for _, envelopes := range [][]Envelope{e.Send, e.After} {
		for _, envelope := range envelopes {
			if len(w.unused) < maxUnused {
				envelope.Message.Reset()
				w.unused = append(w.unused, envelope.Message)
			}
		}
		clear(envelopes)
	}
	next := &w.effects
	next.Send, next.After = larger(next.Send, e.Send), larger(next.After, e.After)
	next.Persist, next.memory = larger(next.Persist, e.Persist), larger(next.memory, e.memory)
}

// larger is memory for what comes next: that of an old slice, if there is more of it and nothing has come yet.
func larger[T any](next, old []T) []T {
	if len(next) == 0 && cap(next) < cap(old) {
		return old[:0]
	}
	return next
}

// maxUnused bounds the answers that are kept for reuse.
const maxUnused = 4096

// find returns a life, or nil, and the highest known term of its partition.
func (w *Witness) find(number uint32, term uint64) (*life, uint64) {
	p := w.partition(number)
	for _, l := range slices.Backward(p.lives) {
		if l.term == term {
			return l, p.highest
		}
	}
	return nil, p.highest
}

// partition is what is known of one; it may be nothing.
func (w *Witness) partition(number uint32) *partition {
	if int64(number) >= int64(len(w.partitions)) {
		return &partition{}
	}
	return &w.partitions[number]
}

// begin makes a life; force exceeds the limits. It must be of a higher term than all before.
func (w *Witness) begin(number uint32, term uint64, slots int, force bool) (*life, error) {
	if lives := w.countLives(); !force && lives >= w.config.Lives {
		return nil, fmt.Errorf("there are %d lives already, the limit (lives)", lives)
	}
	c, err := cache.New(slots, &w.budget, force)
	if err != nil {
		return nil, err
	}
	p := w.raise(number, term)
	l := &life{number: number, term: term, cache: c}
	p.lives = append(p.lives, l)
	return l, nil
}

func (w *Witness) countLives() (lives int) {
	for i := range w.partitions {
		lives += len(w.partitions[i].lives)
	}
	return lives
}

// end drops a life, if it is known, and remembers its term.
func (w *Witness) end(number uint32, term uint64) {
	p := w.raise(number, term)
	p.ended = max(p.ended, term)
	p.lives = slices.DeleteFunc(p.lives, func(l *life) bool {
		if l.term == term {
			l.cache.Release()
		}
		return l.term == term
	})
}

// raise notes that a term of a partition was heard of from the manager.
func (w *Witness) raise(number uint32, term uint64) *partition {
	if missing := int64(number) + 1 - int64(len(w.partitions)); missing > 0 {
		w.partitions = append(w.partitions, make([]partition, missing)...)
	}
	p := &w.partitions[number]
	p.highest = max(p.highest, term)
	return p
}
