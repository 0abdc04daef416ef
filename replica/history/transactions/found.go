package transactions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/history/precedence"
	"github.com/georegister/georegister/replica/register"
)

// key is what is known of a key.
type key struct {
	writers []int32            // who left a value, in the order of the proposal once there is one
	by      map[string][]int32 // those, by the value
	hinted  bool               // each writer that had an effect has a timestamp
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

// valueKey tells values apart, as keys of a map.
func valueKey(v register.Value) string {
	if !v.Present() {
		return ""
	}
	return "=" + string(v)
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
			k := c.key(w.Key)
			k.writers = append(k.writers, int32(i))
			k.by[valueKey(w.Value)] = append(k.by[valueKey(w.Value)], int32(i))
		}
	}
	var waiting []int32
	wrong := make([]string, len(c.all))
	for i, t := range c.all {
		for _, a := range t.Reads {
			f, why := c.find(int32(i), a)
			if why != "" {
				wrong[i] = why
			}
			c.reads[i] = append(c.reads[i], f)
		}
		if c.known(int32(i)) {
			waiting = append(waiting, int32(i))
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
		if c.sure[i] && wrong[i] != "" {
			return &unexplained{t, wrong[i]}
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
		k = &key{by: map[string][]int32{}}
		c.keys[name] = k
	}
	return k
}

// find tells who left what a transaction found, or why nobody can have.
func (c *checker) find(i int32, a history.Access) (f found, why string) {
	t := c.all[i]
	f = found{key: a.Key, value: a.Value, writer: precedence.NoNode}
	candidates := c.candidates(i, a)
	switch n := len(candidates); {
	case n == 0:
		return f, c.unwritten(t, a)
	case n == 1:
		f.writer, f.certain = candidates[0], true
		return f, ""
	}
	// The first that the reader's hint fits, else the latest that is known.
	rank := func(w int32) int {
		switch {
		case w == precedence.NoNode:
			return 1
		case a.Version > 0 && c.all[w].Timestamp == a.Version:
			return 3
		case c.known(w):
			return 2
		}
		return 0
	}
	invoked := func(w int32) time.Duration {
		if w == precedence.NoNode {
			return 0
		}
		return c.all[w].Invoked
	}
	f.writer = slices.MaxFunc(candidates, func(v, w int32) int {
		return cmp.Or(cmp.Compare(rank(v), rank(w)), cmp.Compare(invoked(v), invoked(w)))
	})
	return f, ""
}

// candidates are those who can have left what a transaction found.
func (c *checker) candidates(i int32, a history.Access) (candidates []int32) {
	if !a.Value.Present() {
		candidates = append(candidates, precedence.NoNode)
	}
	for _, w := range c.key(a.Key).by[valueKey(a.Value)] {
		if w != i && c.inTime(w, i) {
			candidates = append(candidates, w)
		}
	}
	return candidates
}

// inTime reports whether a writer was invoked before a reader returned.
func (c *checker) inTime(writer, reader int32) bool {
	return !c.known(reader) || c.all[writer].Invoked <= c.all[reader].Returned
}

// explains reports whether a transaction can have found a value because another one had left it.
func (c *checker) explains(writer, reader int32, f found) bool {
	if writer == precedence.NoNode {
		return !f.value.Present()
	}
	return c.inTime(writer, reader) && c.left(writer, f.key).Equal(f.value)
}

// left is the value that a transaction left of a key that it wrote.
func (c *checker) left(writer int32, key string) register.Value {
	writes := c.all[writer].Writes
	return writes[slices.IndexFunc(writes, func(a history.Access) bool { return a.Key == key })].Value
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
		k.hinted = !slices.ContainsFunc(k.writers, func(w int32) bool { return stamps[w] == 0 })
		if k.hinted {
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
