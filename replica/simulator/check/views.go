package check

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// View holds what a view and a protocol's count of answers say of quorums against what a quorum is for, set by set:
// any two that must have a member in common do, any minority may be away, and a change of members loses nothing.
// Nothing here is computed as the view does: majorities are counted, and of sets all are tried.
func View(v view.View) error {
	if err := v.Validate(); err != nil {
		return fmt.Errorf("a view that nobody can use is recorded: %w", err)
	}
	if err := digested(v); err != nil {
		return fmt.Errorf("the view of epoch %d: %w", v.Epoch, err)
	}
	if err := recovery(v); err != nil {
		return fmt.Errorf("if the quorum of epoch %d was lost: %w", v.Epoch, err)
	}
	shape := shapeOf(v)
	err := judged.of(shape, judgeOrdered)
	if err == nil {
		err = counted.of(sorted(shape), judgeCounts)
	}
	if err != nil {
		return fmt.Errorf("the view of epoch %d, of %s: %w", v.Epoch, shape, err)
	}
	return nil
}

// The shapes of views that were judged: as they are, and, of what counts members in whatever order, sorted, of which
// there are few.
var judged, counted verdicts

// verdicts are what came of judging shapes: the same in each run.
type verdicts struct{ known sync.Map }

func (c *verdicts) of(shape string, judge func(shape string) error) error {
	verdict, known := c.known.Load(shape)
	if !known {
		verdict, _ = c.known.LoadOrStore(shape, any(judge(shape)))
	}
	err, _ := verdict.(error)
	return err
}

func sorted(shape string) string {
	letters := []byte(shape)
	slices.Sort(letters)
	return string(letters)
}

// digested reports a digest that does not tell views apart, or tells one from itself.
func digested(v view.View) error {
	named := v
	named.Issued = v.LastIssued()
	if v.Digest() != named.Digest() {
		return fmt.Errorf("its digest is another one if it names the highest id that was ever given")
	}
	for which, change := range []func(*view.View){
		func(o *view.View) { o.Epoch++ },
		func(o *view.View) { o.Issued = o.LastIssued() + 1 },
		func(o *view.View) { o.Cluster += "'" },
		func(o *view.View) { o.Members[0].Disk += "'" },
		func(o *view.View) { o.Members = o.Members[1:] },
	} {
		other := v
		other.Members = slices.Clone(v.Members)
		if change(&other); other.Digest() == v.Digest() {
			return fmt.Errorf("another view has its digest (change %d)", which)
		}
	}
	return nil
}

// The members of a view's shape: all that quorums depend on.
const (
	stays  = 's'
	joins  = 'j'
	leaves = 'l'
)

// shapeOf is a letter for each member of a view, in its order.
func shapeOf(v view.View) string {
	shape := strings.Builder{}
	for _, m := range v.Members {
		switch {
		case m.Joining:
			shape.WriteByte(joins)
		case m.Leaving:
			shape.WriteByte(leaves)
		default:
			shape.WriteByte(stays)
		}
	}
	return shape.String()
}

// members is a set of a view's members, a bit for each by position.
type members uint32

func (s members) size() int                 { return bits.OnesCount32(uint32(s)) }
func (s members) has(i int) bool            { return s>>i&1 == 1 }
func (s members) majorityOf(o members) bool { return 2*(s&o).size() > o.size() }

// electorate is a view of a shape, the sets of its members before and after the change, and who stays or joins.
type electorate struct {
	view          view.View
	all           members
	before, after members
}

func electorateOf(shape string) *electorate {
	e := &electorate{view: view.View{Cluster: "judged", Epoch: 2}}
	for i := range len(shape) {
		m := view.Member{ID: view.MemberID(2*i + 1), Joining: shape[i] == joins, Leaving: shape[i] == leaves}
		e.view.Members = append(e.view.Members, m)
		e.all |= 1 << i
		if !m.Joining {
			e.before |= 1 << i
		}
		if !m.Leaving {
			e.after |= 1 << i
		}
	}
	return e
}

// in reports membership of a set, as functions of views ask for it.
func (e *electorate) in(s members) func(view.MemberID) bool {
	return func(id view.MemberID) bool { i := e.view.Index(id); return i >= 0 && s.has(i) }
}

// quorum reports whether a set has a majority of each side.
func (e *electorate) quorum(s members) bool { return s.majorityOf(e.before) && s.majorityOf(e.after) }

// meets reports whether a set has a member in common with every majority of each side.
func (e *electorate) meets(s members) bool {
	return !(e.all &^ s).majorityOf(e.before) && !(e.all &^ s).majorityOf(e.after)
}

// plain reports that members do not change.
func (e *electorate) plain() bool { return e.before == e.after }

// judgeOrdered and judgeCounts try all sets of the members of a shape; an error says of which the code is wrong, and
// where.
func judgeOrdered(shape string) error {
	return judge(shape, judgeSets, judgeQuestions, judgeTransfers, judgeCovered, judgeRelaxed, judgeFaults)
}

func judgeCounts(shape string) error { return judge(shape, judgeTallies, judgeFragments) }

func judge(shape string, all ...func(*electorate) error) error {
	e := electorateOf(shape)
	if len(shape) > 14 {
		return nil // too many sets; no schedule has so many members
	}
	for _, one := range all {
		if err := one(e); err != nil {
			return err
		}
	}
	return nil
}

// judgeSets judges what the view says of each set.
func judgeSets(e *electorate) error {
	v := e.view
	for s := range e.all + 1 {
		switch is := e.in(s); {
		case v.Quorum(is) != e.quorum(s):
			return fmt.Errorf("the function Quorum says %v of the members %b, a majority of each side or not",
				!e.quorum(s), s)
		case v.Meets(is) != e.meets(s):
			return fmt.Errorf("the function Meets says %v of the members %b, which meet each quorum or not",
				!e.meets(s), s)
		}
	}
	return nil
}

// judgeTallies judges the count of answers for each set that answered: with each member beside them, and with a
// disk of theirs that is lost, and answers again as another one.
func judgeTallies(e *electorate) error {
	for s := range e.all + 1 {
		disks, t := quorum.FirstDisks(e.view), &quorum.Tally{}
		for i, m := range e.view.Members {
			if s.has(i) && !(t.Answer(disks, m.ID) && t.Answered(disks, m.ID)) {
				return fmt.Errorf("the first answer of member %d counts for nothing", m.ID)
			}
		}
		if err := e.counts(disks, t, s, 0, s); err != nil {
			return err
		}
		for i, m := range e.view.Members {
			if err := e.counts(disks, t, s, m.ID, s|1<<i); err != nil {
				return err
			}
			if !s.has(i) {
				continue
			}
			lost, copied := quorum.FirstDisks(e.view), &quorum.Tally{}
			lost.Learn(m.ID, 2)
			copied.Copy(t)
			if err := e.counts(lost, copied, s, 0, s&^(1<<i)); err != nil {
				return fmt.Errorf("with a lost disk: %w", err)
			}
			if !copied.Answer(lost, m.ID) || copied.Answer(lost, m.ID) {
				return fmt.Errorf("the answer of the second disk of member %d is no news, or twice", m.ID)
			}
			if err := e.counts(lost, copied, s, 0, s); err != nil {
				return fmt.Errorf("with the answer of a new disk: %w", err)
			}
		}
	}
	return nil
}

// counts holds a count of the answers of a set, and of a member also, against the set that should count.
func (e *electorate) counts(r *quorum.Incarnations, t *quorum.Tally, s members, also view.MemberID,
	counted members) error {
	fail := func(what string, says any) error {
		return fmt.Errorf("%s of a tally says %v: the members %b answered, with %d, and %b of them count", what,
			says, s, also, counted)
	}
	switch {
	case t.Quorum(r, also) != e.quorum(counted):
		return fail("Quorum", t.Quorum(r, also))
	case t.QuorumBefore(r, also) != counted.majorityOf(e.before):
		return fail("QuorumBefore", t.QuorumBefore(r, also))
	case t.Meets(r, also) != e.meets(counted):
		return fail("Meets", t.Meets(r, also))
	case also == 0 && t.Count(r) != counted.size():
		return fail("Count", t.Count(r))
	case t.Fast(r, also) != e.fast(counted):
		return fail("Fast", t.Fast(r, also))
	}
	return nil
}

// fast reports whether a set is a fast quorum of EPaxos: of a plain view, a majority that misses no more than one
// member.
func (e *electorate) fast(s members) bool {
	return e.plain() && s.majorityOf(e.all) && s.size() >= e.all.size()-1
}

// judgeQuestions judges whom a question goes to: with the asker, who is asked at first is a quorum; then everybody
// is asked who has not answered.
func judgeQuestions(e *electorate) error {
	for self, m := range e.view.Members {
		config := &protocol.Config{Self: m.ID, View: e.view, Retry: 1}
		for i := range e.view.Members { // those after the asker come first
			if i > 0 {
				config.Nearest = append(config.Nearest, e.view.Members[(self+i)%e.all.size()].ID)
			}
		}
		disks := quorum.FirstDisks(e.view)
		for _, fast := range []bool{false, true} {
			t, asked, told := &quorum.Tally{}, members(1<<self), []view.MemberID(nil)
			if fast {
				told = t.AskFast(config, disks, 1)
			} else {
				told = t.AskQuorum(config, disks, 1)
			}
			for _, id := range told {
				asked |= 1 << e.view.Index(id)
			}
			if !e.quorum(asked) || fast && e.plain() && !e.fast(asked) {
				return fmt.Errorf("member %d asks %b for a quorum, a fast one: %v, and they are too few", m.ID,
					asked, fast)
			}
			if t.Wide() != (asked == e.all) {
				return fmt.Errorf("member %d asks %b, and Wide says %v", m.ID, asked, t.Wide())
			}
			if len(config.Nearest) == 0 {
				continue
			}
			first := config.Nearest[0]
			t.Answer(disks, first)
			if again := t.Again(config, disks, 2); !slices.Equal(again, config.Nearest[1:]) || !t.Wide() {
				return fmt.Errorf("member %d has an answer of member %d, and asks %v again", m.ID, first, again)
			}
		}
	}
	return nil
}

// covered reports whether what ended before a change is held by a majority of the members after it, when some have
// fetched the state and some have settled: whichever majority held it before.
func (e *electorate) covered(fetched, settled members) bool {
	for held := range e.before + 1 {
		if held&^e.before == 0 && held.majorityOf(e.before) && !(fetched | held&settled).majorityOf(e.after) {
			return false
		}
	}
	return true
}

// judgeCovered judges when a change may be finished, for each number of members that stay or join that have
// settled, and that have fetched the state.
func judgeCovered(e *electorate) error {
	if e.plain() {
		return nil
	}
	for _, p := range e.progress() {
		if got := e.view.Covered(e.in(p.fetched), e.in(p.settled)); got != e.covered(p.fetched, p.settled) {
			return fmt.Errorf("the function Covered says %v when the members %b have fetched and %b have settled",
				got, p.fetched, p.settled)
		}
	}
	return nil
}

// progress is who has done what of a change.
type progress struct{ fetched, settled members }

// progress lists each number of those that stay, and of those that join, which have settled, or have fetched as
// well. Which of them they are makes no difference: the first ones.
func (e *electorate) progress() (all []progress) {
	stay, join := e.before&e.after, e.after&^e.before
	for _, s := range stages(stay) {
		for _, j := range stages(join) {
			all = append(all, progress{s.fetched | j.fetched, s.settled | j.settled})
		}
	}
	return all
}

func stages(of members) (all []progress) {
	for settled := members(0); ; settled = firstOf(of, settled.size()+1) {
		for fetched := range settled.size() + 1 {
			all = append(all, progress{firstOf(settled, fetched), settled})
		}
		if settled == of {
			return all
		}
	}
}

// firstOf is the first n of some members.
func firstOf(of members, n int) (first members) {
	for i := 0; first.size() < n; i++ {
		first |= of & (1 << i)
	}
	return first
}

// judgeTransfers judges who has to fetch the state in a change: all that join, nobody who leaves, and so many that
// the change can be finished when all have done what they have to.
func judgeTransfers(e *electorate) error {
	fetching := members(0)
	for i, m := range e.view.Members {
		if e.view.Transfers(m.ID) {
			fetching |= 1 << i
		}
	}
	switch join := e.after &^ e.before; {
	case e.view.Transfers(view.MaxMemberID), fetching&^e.after != 0, e.plain() && fetching != 0:
		return fmt.Errorf("the function Transfers has the members %b fetch, some of whom are no "+
			"members after a change", fetching)
	case e.plain():
		return nil
	case join&^fetching != 0:
		return fmt.Errorf("the function Transfers has the members %b fetch, and %b join", fetching, join)
	case !e.covered(fetching, e.after):
		return fmt.Errorf("the function Transfers has the members %b fetch, with whom the change "+
			"can't be finished", fetching)
	}
	return nil
}

// judgeFragments judges how many members have to hold fragments: so many that enough are left to restore the value
// when as many are lost as may be, of the members before a change and, when it is finished, of those after it.
func judgeFragments(e *electorate) error {
	for data := range e.all.size() + 1 {
		for faults := range e.all.size() {
			f := view.Fragments{Data: data, Faults: faults}
			before, after := holdersOf(f, e.before), holdersOf(f, e.after)
			if got := f.Holders(e.view.Before()); got != before || f.Holders(e.view.After()) != after {
				return fmt.Errorf("%+v: Holders says %d before and %d after the change, which have "+
					"to be %d and %d", f,
					got, f.Holders(e.view.After()), before, after)
			}
			if e.plain() || e.after.size() > 7 && data > 3 {
				continue
			}
			for _, p := range e.progress() {
				if p.settled != e.after {
					continue // who settled does not matter
				}
				if got := f.Restorable(e.view, e.in(p.fetched)); got != (data == 0 || e.restorable(before, after,
					p.fetched)) {
					return fmt.Errorf("%+v: Restorable says %v when the members %b have fetched", f, got, p.fetched)
				}
			}
		}
	}
	return nil
}

// holdersOf is how many of some members have to hold fragments.
func holdersOf(f view.Fragments, of members) int {
	lost := (of.size() - 1) / 2
	if f.Faults > 0 {
		lost = min(lost, f.Faults)
	}
	return max(f.Data+lost, of.size()/2+1)
}

// restorable reports whether enough members after a change hold fragments of what any set of so many members held
// before it.
func (e *electorate) restorable(before, after int, fetched members) bool {
	for held := range e.before + 1 {
		if held&^e.before == 0 && held.size() >= min(before, e.before.size()) &&
			(e.after&(held|fetched)).size() < min(after, e.after.size()) {
			return false
		}
	}
	return true
}

// judgeRelaxed judges relaxed quorums of so many members, for each number that may be lost: up to five have none, enough
// are left to write and to hold a write, any two reads meet, and who wrote what so many others hold hears of a majority
// that holds it.
func judgeRelaxed(e *electorate) error {
	n := e.all.size()
	for f := range n {
		r, some := view.RelaxedFor(n, f)
		if some && (n <= 5 || f == 0 || 2*r.Read <= n || r.Write > n-f || r.Hold > n-f || r.Hold+r.Write-n < r.Read-1 ||
			2*(n-r.Write) > r.Read) {
			return fmt.Errorf("of %d members, of whom %d may be lost, the relaxed quorums are %+v", n, f, r)
		}
	}
	return nil
}

// judgeFaults judges how many losses the partitions of a view are to survive: a minority of the members before the
// change, and, unless it is abandoned, of those after it, if these are more, as far as they have others for backups.
func judgeFaults(e *electorate) error {
	before, after := (e.before.size()-1)/2, (e.after.size()-1)/2
	if got := membership.Faults(e.view, true); got != before {
		return fmt.Errorf("partitions are to survive %d losses, of which members before the change bear %d", got,
			before)
	}
	if got := membership.Faults(e.view, false); got != min(max(before, after), e.after.size()-1) {
		return fmt.Errorf("partitions are to survive %d losses, of which members bear %d before and "+
			"%d after the change", got, before, after)
	}
	return nil
}
