package transactions

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/history/precedence"
	"github.com/georegister/georegister/replica/register"
)

// key is what is known of a key.
type key struct {
	writers []int32            // who left a value, by when they were invoked; in the order of the proposal from then on
	by      map[string]*value  // those, by the value
	stamped map[uint64][]int32 // those with a timestamp, by that
}

// value is who left one of a key's values, by when they were invoked.
type value struct {
	writers []int32
	known   []int32 // those that are committed
}

// found is a value that a transaction found.
type found struct {
	key     string
	value   register.Value
	writer  int32 // who left it, or is taken to have; NoNode: it is what the key had at first
	certain bool  // nobody else can have
}

// unexplained is a transaction that no order explains.
type unexplained struct {
	transaction history.Transaction
	why         string
}

// collect lists the transactions that count, and finds who left what they found. It returns a transaction that found
// what nobody can have left by then, if there is one.
func (c *checker) collect() *unexplained {
	candidates := slices.DeleteFunc(slices.Clone(c.record.Transactions), func(t history.Transaction) bool {
		return t.Outcome == history.Aborted || t.Outcome != history.Committed && len(t.Writes) == 0
	})
	byInvoked := func(a, b history.Transaction) int { return cmp.Compare(a.Invoked, b.Invoked) }
	slices.SortStableFunc(candidates, byInvoked)
	c.all, c.keys = candidates, map[string]*key{}
	c.reads, c.effect = make([][]found, len(c.all)), make([]bool, len(c.all))
	for i, t := range c.all {
		for _, w := range t.Writes {
			c.key(w.Key).add(int32(i), t, w.Value)
		}
	}
	var waiting []int32
	wrong := map[int32]history.Access{}
	for n, t := range c.all {
		i := int32(n)
		for _, a := range t.Reads {
			f, possible := c.find(i, a)
			if !possible {
				wrong[i] = a
			}
			c.reads[i] = append(c.reads[i], f)
		}
		if c.known(i) {
			waiting = append(waiting, i)
			c.effect[i] = true
		}
	}
	for ; len(waiting) > 0; waiting = waiting[1:] { // who left what one with an effect found has one, too
		for _, f := range c.reads[waiting[0]] {
			if f.writer != precedence.NoNode && !c.effect[f.writer] {
				c.effect[f.writer] = true
				waiting = append(waiting, f.writer)
			}
		}
	}
	c.findSure()
	for i, t := range c.all {
		if a, isWrong := wrong[int32(i)]; c.sure[i] && isWrong {
			return &unexplained{t, c.unwritten(t, a)}
		}
	}
	return nil
}

// findSure notes which transactions have an effect for sure.
func (c *checker) findSure() {
	c.sure = make([]bool, len(c.all))
	var waiting []int32
	sure := func(i int32) {
		if i != precedence.NoNode && !c.sure[i] {
			c.sure[i] = true
			waiting = append(waiting, i)
		}
	}
	for i := range c.all {
		if c.known(int32(i)) {
			sure(int32(i))
		}
	}
	for ; len(waiting) > 0; waiting = waiting[1:] {
		for _, f := range c.reads[waiting[0]] {
			if f.certain {
				sure(f.writer)
			}
		}
	}
}

func (c *checker) key(name string) *key {
	k := c.keys[name]
	if k == nil {
		k = &key{by: map[string]*value{}, stamped: map[uint64][]int32{}}
		c.keys[name] = k
	}
	return k
}

// add notes that a transaction left a value.
func (k *key) add(i int32, t history.Transaction, left register.Value) {
	v := k.by[history.ValueKey(left)]
	if v == nil {
		v = &value{}
		k.by[history.ValueKey(left)] = v
	}
	k.writers, v.writers = append(k.writers, i), append(v.writers, i)
	if t.Outcome == history.Committed {
		v.known = append(v.known, i)
	}
	if t.Timestamp > 0 {
		k.stamped[t.Timestamp] = append(k.stamped[t.Timestamp], i)
	}
}

// find tells who left what a transaction found, and whether anybody can have. Of several it takes the one that the
// hint names, or else the latest that is committed, or the latest.
func (c *checker) find(i int32, a history.Access) (f found, possible bool) {
	f = found{key: a.Key, value: a.Value, writer: precedence.NoNode}
	k := c.key(a.Key)
	v := k.by[history.ValueKey(a.Value)]
	if v == nil {
		v = &value{}
	}
	writers := c.until(v.writers, i)
	initial, candidates := !a.Value.Present(), len(writers)
	if _, own := slices.BinarySearch(writers, i); own {
		candidates--
	}
	if initial {
		candidates++
	}
	f.certain = candidates == 1
	if a.Version > 0 {
		for _, w := range k.stamped[a.Version] {
			if _, left := slices.BinarySearch(writers, w); left && w != i {
				f.writer = w
				return f, true
			}
		}
	}
	f.writer = latest(c.until(v.known, i), i)
	if f.writer == precedence.NoNode && !initial {
		f.writer = latest(writers, i)
	}
	return f, candidates > 0
}

// latest is the last one of some writers that is not the reader; NoNode: there is none.
func latest(writers []int32, reader int32) int32 {
	for _, w := range slices.Backward(writers) {
		if w != reader {
			return w
		}
	}
	return precedence.NoNode
}

// until are those of some writers that were invoked before a reader returned.
func (c *checker) until(writers []int32, reader int32) []int32 {
	n, _ := slices.BinarySearchFunc(writers, reader, func(w, reader int32) int {
		if c.inTime(w, reader) {
			return -1
		}
		return 1
	})
	return writers[:n]
}

// inTime reports whether a writer was invoked before a reader returned.
func (c *checker) inTime(writer, reader int32) bool {
	return !c.known(reader) || c.all[writer].Invoked <= c.all[reader].Returned
}

// unwritten says why nobody can have left what a transaction found.
func (c *checker) unwritten(t history.Transaction, a history.Access) string {
	for _, other := range c.record.Transactions {
		for _, w := range other.Writes {
			if w.Key != a.Key || !w.Value.Equal(a.Value) {
				continue
			}
			switch {
			case other.Outcome == history.Aborted:
				return fmt.Sprintf("it found what an aborted transaction of %s would have left of key %s", other.Client,
					name(a.Key))
			case other.Invoked > t.Returned:
				return fmt.Sprintf("it found of key %s what was written later: the transaction of %s was invoked at %v",
					name(a.Key), other.Client, other.Invoked)
			}
			return fmt.Sprintf("it found its own write of key %s, as if another one had left it", name(a.Key))
		}
	}
	return fmt.Sprintf("no transaction of the history left what it found of key %s", name(a.Key))
}

// addFound draws what was found: who found a value comes after who left it, certainAlone where nobody else can have.
// Nothing comes after a transaction without an effect, so that it does no harm there.
func (c *checker) addFound(g *precedence.Graph, certainAlone bool) {
	for i, reads := range c.reads {
		for _, f := range reads {
			if f.certain || !certainAlone {
				g.Add(f.writer, int32(i), byReading)
			}
		}
	}
}

// propose puts the writers of each key into an order: by their timestamps, or where some have none, by a known order
// that has those first who returned first.
func (c *checker) propose(g *precedence.Graph) {
	stamps := c.timestamps()
	var position []int
	for _, k := range c.keys { // order is irrelevant: each key is by itself
		k.writers = slices.DeleteFunc(k.writers, func(w int32) bool { return !c.effect[w] })
		if !slices.ContainsFunc(k.writers, func(w int32) bool { return stamps[w] == 0 }) {
			slices.SortStableFunc(k.writers, func(a, b int32) int { return cmp.Compare(stamps[a], stamps[b]) })
			continue
		}
		if position == nil {
			position = c.positions(g)
		}
		slices.SortStableFunc(k.writers, func(a, b int32) int { return cmp.Compare(position[a], position[b]) })
	}
}

// timestamps are those of the transactions, and of those that were told by who found what they left.
func (c *checker) timestamps() []uint64 {
	stamps := make([]uint64, len(c.all))
	for i, t := range c.all {
		stamps[i] = t.Timestamp
	}
	for i, t := range c.all {
		for n, f := range c.reads[i] {
			if f.writer != precedence.NoNode && stamps[f.writer] == 0 {
				stamps[f.writer] = t.Reads[n].Version
			}
		}
	}
	return stamps
}

// addVersions draws what follows from the proposed order of each key's values.
func (c *checker) addVersions(g *precedence.Graph) {
	readers := map[string]map[int32][]int32{} // by key and writer
	for i, reads := range c.reads {
		if !c.effect[i] {
			continue
		}
		for _, f := range reads {
			if readers[f.key] == nil {
				readers[f.key] = map[int32][]int32{}
			}
			readers[f.key][f.writer] = append(readers[f.key][f.writer], int32(i))
		}
	}
	for name, k := range c.keys { // order is irrelevant: an order without a cycle is one of several
		previous := precedence.NoNode
		for _, w := range k.writers {
			g.Add(previous, w, byVersion)
			for _, r := range readers[name][previous] {
				if r != w {
					g.Add(r, w, byReplaced)
				}
			}
			previous = w
		}
	}
}
