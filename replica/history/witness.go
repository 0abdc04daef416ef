package history

import (
	"bytes"
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
)

const (
	// What a replay may do beyond one pass before it leaves the key to the search: of a hundred steps, less than a
	// second.
	tries      = 1_000_000
	maxUnknown = 3 // unknown effects in a row that are tried to explain one answer, beside those that a read shows
)

// proved reports whether the carstamps lead to a linearization of the steps. Whether they do is for the
// values and times to decide: every step is applied and its answer compared, and no step comes before one
// that had returned when it was invoked. A wrong carstamp can only make the proof fail. False says nothing
// about the history.
//
// Reads and writes are taken in the order of their carstamps. A write that was answered before its place was known has
// that of the operations that found it. Writes and rmws without one, as protocols need not tell it, and unknown steps
// are put between them where they fit.
//
// If the carstamps may be counts, a first attempt takes them as such, which leaves the loose steps few places. A last
// one lets rmws take effect before their carstamps. leftOut is how many unknown writes prepare left out: no one saw
// them, but they may count.
func proved(ctx context.Context, registry *register.Registry, steps []*step, leftOut int) bool {
	r := replay{ctx: ctx, registry: registry, seed: maphash.MakeSeed()}
	seen := stamps(registry, steps)
	for _, s := range steps {
		if c, ok := seen[string(s.Request.Value)]; ok && lacksStamp(s) {
			placed := *s
			placed.Result.Carstamp = c
			s = &placed
		}
		hinted := !s.Result.Carstamp.IsZero()
		switch {
		case !s.known || !hinted && s.Request.Kind != register.Read:
			r.loose = append(r.loose, s)
		case !hinted && s.Result.Value.Present():
			return false
		default:
			r.order = append(r.order, s)
		}
	}
	r.sort(observesCounted)
	var from count
	if from, r.counted = counts(r.order, r.loose, leftOut); r.counted && r.run(tries/10, from) {
		return true
	}
	r.counted = false
	r.sort(observes)
	if r.run(tries, count{}) {
		return true
	}
	r.early = true
	return r.run(tries/10, count{})
}

// sort orders the steps that have a carstamp by it, and those of one carstamp by a rank.
func (r *replay) sort(rank func(*step) int) {
	slices.SortStableFunc(r.order, func(a, b *step) int {
		return cmp.Or(a.Result.Carstamp.Compare(b.Result.Carstamp), cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.from, b.from))
	})
}

// run is one attempt, with so many tries beyond one pass.
func (r *replay) run(tries int, from count) bool {
	r.latest = make([]time.Duration, len(r.order)+1)
	r.latest[len(r.order)] = never
	r.read = make([]*step, len(r.order)+1)
	for i, s := range slices.Backward(r.order) {
		r.latest[i] = min(r.latest[i+1], s.Returned)
		if r.read[i] = r.read[i+1]; s.Request.Kind == register.Read {
			r.read[i] = s
		}
		if s.from > r.latest[i] {
			return false
		}
	}
	r.first, r.moved = 0, 0
	r.placed, r.used, r.taken = make([]bool, len(r.loose)), make([]int, len(r.loose)), make([]bool, len(r.order))
	r.failed = map[uint64]struct{}{}
	r.budget = tries + 20*(len(r.order)+len(r.loose))
	return r.at(0, nil, from, deepen)
}

func lacksStamp(s *step) bool {
	return s.known && s.Request.Kind == register.Write && s.Result.Carstamp.IsZero() && s.Request.Value.Present()
}

// stamps are, by value, the carstamps of writes that were answered without: reads returned the value with it, or with
// that of rmws on it, or the first rmw on the write was answered with the next one.
func stamps(registry *register.Registry, steps []*step) map[string]register.Carstamp {
	lacking := slices.DeleteFunc(slices.Clone(steps), func(s *step) bool { return !lacksStamp(s) })
	if len(lacking) == 0 {
		return nil // as with most protocols
	}
	told := map[register.Carstamp]bool{}
	seen := map[string]register.Carstamp{}
	for _, s := range steps {
		told[s.Result.Carstamp] = true
		if s.Request.Kind == register.Read && s.Result.Value.Present() {
			// Rmws that came between changed nothing, since no two writes here have one value.
			seen[string(s.Result.Value)] = baseOf(s)
		}
	}
	for _, s := range steps {
		base := baseOf(s)
		if !s.known || s.Request.Kind != register.RMW || s.Result.Carstamp.RMWs != 1 || base.IsZero() || told[base] {
			continue
		}
		found := func(w *step) bool {
			_, agrees := outcome(registry, w.Request.Value, s)
			return agrees && w.from <= s.Returned && seen[string(w.Request.Value)].IsZero()
		}
		// A comparison that failed, for one, agrees with nearly all, and says nothing.
		i := slices.IndexFunc(lacking, found)
		if i >= 0 && !slices.ContainsFunc(lacking[i+1:], found) {
			seen[string(lacking[i].Request.Value)], told[base] = base, true
		}
	}
	return seen
}

// baseOf is the carstamp of the write that a step's carstamp counts rmws from.
func baseOf(s *step) register.Carstamp {
	return register.Carstamp{Timestamp: s.Result.Carstamp.Timestamp, Writer: s.Result.Carstamp.Writer}
}

// observes is 1 for steps that take the carstamp of what they found, and so come after it.
func observes(s *step) int {
	if s.Request.Kind == register.Read || s.Result.Status == register.Failed {
		return 1
	}
	return 0
}

// observesCounted is observes where an rmw counts though it is refused, so that its carstamp is a new one.
func observesCounted(s *step) int {
	if s.Request.Kind == register.Read {
		return 1
	}
	return 0
}

// replay applies steps in a given order, with loose ones between them.
type replay struct {
	ctx      context.Context // when it ends, nothing is proved
	registry *register.Registry
	order    []*step
	latest   []time.Duration // the latest that a step may begin that comes directly before order[i]
	read     []*step         // the first read from order[i] on, or nil
	loose    []*step         // by when they may begin
	placed   []bool          // loose steps that were put somewhere
	first    int             // no loose step before this one is left
	used     []int           // unknown steps that were placed, by class
	budget   int
	counted  bool // a step with a carstamp comes only where the count is right
	// early has rmws come before their carstamp, too: one that is applied at least once is answered with the carstamp
	// of the last time.
	early bool
	taken []bool // steps of the order that came early
	moved uint64 // stands for what is placed and taken
	// failed are the points from which nothing led on: another order of the same loose steps comes to them again. Two
	// points of one digest could only have the proof fail.
	failed map[uint64]struct{}
	seed   maphash.Seed
}

// point is where an attempt is.
type point struct {
	before, unknown int // the step of the order, and how many unknown steps may be put before it
	count
	present      bool
	value, moved uint64 // digests of the value, and of which steps were put before
}

// put marks a step as placed or taken early, or not any more. Those of the order are counted behind the loose ones.
func (r *replay) put(marks []bool, i, number int) {
	marks[i] = !marks[i]
	r.moved ^= Scramble(uint64(number))
}

// deepen, as a number of unknown steps, is to try none, then one, then more.
const deepen = -1

// at reports whether the steps from order[i] and the loose ones that are left can follow a value, with at
// most so many unknown steps before order[i].
func (r *replay) at(i int, value register.Value, c count, unknown int) bool {
	for ; i < len(r.order); i++ {
		if r.ctx.Err() != nil {
			return false
		}
		if r.taken[i] {
			continue
		}
		s := r.order[i]
		next, agrees := outcome(r.registry, value, s)
		agrees = agrees && !r.overdue(s.from)
		if r.counted {
			writes, rmws, possible := c.missing(s)
			if !possible {
				return false
			}
			missing := writes+rmws > 0
			if (missing || !agrees) && r.insert(i, value, c, unknown) {
				return true
			}
			if c, possible = c.reach(s, writes, rmws); !possible || !agrees {
				return false
			}
		} else if !agrees {
			return r.insert(i, value, c, unknown)
		} else if s.Request.Kind == register.Write && r.place(i, value, c, 0) {
			return true // what fits a value has no other chance once a write comes over it
		}
		value, unknown = next, deepen
	}
	// Unknown steps that are left never took effect.
	return !r.overdue(never) || r.insert(i, value, c, unknown)
}

// insert reports whether loose steps before order[i] help.
func (r *replay) insert(i int, value register.Value, c count, unknown int) bool {
	if unknown != deepen {
		return r.place(i, value, c, unknown)
	}
	for most := range maxUnknown + 1 {
		if r.place(i, value, c, most) {
			return true
		}
	}
	return false
}

// place tries each loose step that fits directly before order[i].
func (r *replay) place(i int, value register.Value, c count, unknown int) bool {
	for r.first < len(r.loose) && r.placed[r.first] {
		r.first++
	}
	from := maphash.Comparable(r.seed,
		point{i, unknown, c, value.Present(), maphash.Bytes(r.seed, value), r.moved})
	if _, known := r.failed[from]; known {
		return false
	}
	grows := r.shows(i, value)
	for j := r.first; j < len(r.loose); j++ {
		s := r.loose[j]
		if s.from > r.latest[i] {
			break
		}
		if r.budget--; r.budget < 0 || r.ctx.Err() != nil {
			return false
		}
		if r.placed[j] || !s.known && (unknown == 0 && !grows || r.used[s.class] != s.rank) || r.overdue(s.from) {
			continue
		}
		if r.try(i, j, value, c, unknown) {
			return true
		}
	}
	if r.early && r.advance(i, value, c, unknown) {
		return true
	}
	if r.budget >= 0 && r.ctx.Err() == nil {
		r.failed[from] = struct{}{}
	}
	return false
}

// advance tries each rmw behind order[i] that fits directly before it.
func (r *replay) advance(i int, value register.Value, c count, unknown int) bool {
	for j := i + 1; j < len(r.order); j++ {
		s := r.order[j]
		if r.taken[j] || s.Request.Kind != register.RMW || s.from > r.latest[i] || r.overdue(s.from) {
			continue
		}
		if r.budget--; r.budget < 0 || r.ctx.Err() != nil {
			return false
		}
		next, agrees := outcome(r.registry, value, s)
		if !agrees || next.Equal(value) {
			continue
		}
		r.put(r.taken, j, len(r.loose)+j)
		if r.at(i, next, c, unknown) {
			return true
		}
		r.put(r.taken, j, len(r.loose)+j)
	}
	return false
}

// try puts one loose step before order[i], and takes it back if that does not work out.
func (r *replay) try(i, j int, value register.Value, c count, unknown int) bool {
	s := r.loose[j]
	next, fits := outcome(r.registry, value, s)
	if !fits {
		return false
	}
	r.put(r.placed, j, j)
	defer func() {
		r.put(r.placed, j, j)
		r.first = min(r.first, j)
	}()
	if s.known {
		return r.at(i, next, c.after(s), unknown)
	}
	if grows := len(next) > len(value) && within(value, next); !grows || !r.shows(i, next) {
		if unknown--; unknown < 0 {
			return false
		}
	}
	r.used[s.class]++
	defer func() { r.used[s.class]-- }()
	return r.at(i, next, c.after(s), unknown)
}

// shows reports whether the next read from order[i] on returned what a value is within. Of appends it shows the order,
// and that of members that were added counts for nothing, so that any number of them can be placed.
func (r *replay) shows(i int, value register.Value) bool {
	return r.read[i] != nil && within(value, r.read[i].Result.Value)
}

// within reports whether a value becomes another one by appends alone, or by members that are added alone: its lines
// are among those of the other, in their order.
func within(value, other register.Value) bool {
	if bytes.HasPrefix(other, value) {
		return true
	}
	others := bytes.SplitAfter(other, []byte("\n"))
	for line := range bytes.Lines(value) {
		at := slices.IndexFunc(others, func(o []byte) bool { return bytes.Equal(o, line) })
		if at < 0 {
			return false
		}
		others = others[at+1:]
	}
	return true
}

// overdue reports whether a known loose step that is left had returned before a time.
func (r *replay) overdue(t time.Duration) bool {
	for j := r.first; j < len(r.loose) && r.loose[j].from < t; j++ {
		if !r.placed[j] && r.loose[j].known && r.loose[j].Returned < t {
			return true
		}
	}
	return false
}
