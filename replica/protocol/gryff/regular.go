package gryff

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// A regular read (Gryff-RSC) may come before a write that is under way, even if it has found what that writes. If a
// quorum of its answers has nothing newer than some version, no quorum held anything newer when the read began. So that
// version is as right an answer as the newest one, and if a quorum holds it, the session depends on nothing, and nobody
// writes anything back. With the answers of all members there is always such a version, with those of all but one
// mostly, but with those of a bare quorum only the newest one will do. So once an operation has waited for what its
// session had read of a key, reads of that key ask all members but the farthest, and wait for what these have to say,
// too. That pays off for sessions whose operations follow one another at once. The others find what they depend on
// written back by then, and their reads need not wait. Nor need any if one has waited in vain: members may be away.

// wideReads is how many reads of a key ask more than a quorum after an operation has waited, and how many do not after
// one has waited in vain. Then one tells, by what follows it, whether that still pays off.
const wideReads = 1024

// answer is what a regular read knows of one disk.
type answer struct {
	by       view.MemberID
	disk     view.Incarnation
	answered bool               // the read's question
	had      register.Versioned // then; of the coordinator, when the question began
	holds    register.Carstamp  // as any message has said until now: this version, or a newer one
}

// readsRegularly reports whether an operation is a regular read.
func (p *Protocol) readsRegularly(o *operation) bool {
	return p.regular && o.Kind() == register.Read && o.Request.Operation.Regular
}

// askRegular begins the first phase of a regular read.
func (p *Protocol) askRegular(o *operation) {
	o.answers = o.answers[:0]
	p.found(o, p.Config.Self, o.chosen)
	to := p.AskQuorum(&o.asked)
	if p.asksMore(o.Key) {
		to = o.asked.Ask(&p.Config, p.Now, max(len(to), len(p.Config.Nearest)-1))
		p.reading[string(o.Key)] = append(p.reading[string(o.Key)], o.Number)
	}
	o.expected = len(to)
	p.spread(o, to)
	p.decide(o)
}

// asksMore reports whether the next read of a key asks more than a quorum, and counts it.
func (p *Protocol) asksMore(key []byte) bool {
	left := p.contended.of[string(key)]
	if left > 0 {
		p.contended.note(key, left-1)
	} else if left < 0 {
		p.contended.note(key, left+1)
	}
	return left > 0
}

// haveWaited has the next reads of keys ask more than a quorum, since an operation waits for what was read of them.
func (p *Protocol) haveWaited(o *operation) {
	for _, d := range o.after {
		if p.contended.of[string(d.Key)] >= 0 {
			p.contended.note(d.Key, wideReads)
		}
	}
}

// answerOf is where a regular read notes what it knows of a member's present disk.
func (p *Protocol) answerOf(o *operation, by view.MemberID) *answer {
	i := slices.IndexFunc(o.answers, func(a answer) bool { return a.by == by && p.counts(a) })
	if i < 0 {
		i = len(o.answers)
		o.answers = append(o.answers, answer{by: by, disk: p.Incarnations.Of(by)})
	}
	return &o.answers[i]
}

// counts reports whether a disk is there still, as far as is known here.
func (p *Protocol) counts(a answer) bool { return p.Incarnations.Of(a.by) == a.disk }

// found notes what a member has answered to a regular read; the first time counts.
func (p *Protocol) found(o *operation, by view.MemberID, v register.Versioned) {
	if a := p.answerOf(o, by); !a.answered {
		a.answered, a.had = true, v
	}
}

// sameValue is the value of an answer that names its version alone, since the question brought that along. The answer
// to a question of before may name one that is not known here any more.
func (o *operation) sameValue(c register.Carstamp) (v register.Value, known bool) {
	if o.chosen.Carstamp == c {
		return o.chosen.Value, true
	}
	for _, a := range o.answers {
		if a.answered && a.had.Carstamp == c {
			return a.had.Value, true
		}
	}
	return nil, false
}

// told has the regular reads of a key that wait for answers know that a member has a version on its disk, or a newer
// one.
func (p *Protocol) told(by view.MemberID, key []byte, c register.Carstamp) {
	for _, number := range slices.Clone(p.reading[string(key)]) {
		if o := p.operations.Find(number); o != nil {
			if a := p.answerOf(o, by); a.holds.Less(c) {
				a.holds = c
				p.decide(o)
			}
		}
	}
}

// oldest is the oldest version that the answers to a regular read allow, and who is known to hold it or a newer one,
// beside this member, which has adopted the newest. A quorum has nothing newer: of this member counts what it had when
// the question began. And it is not older than that, and so not older than what the session has read of the key before.
func (p *Protocol) oldest(o *operation) (v register.Versioned, holders quorum.Tally) {
	own := p.answerOf(o, p.Config.Self).had.Carstamp
	slices.SortFunc(o.answers, func(a, b answer) int { return a.had.Carstamp.Compare(b.had.Carstamp) })
	v = o.chosen
	var older quorum.Tally // with nothing newer
	for _, a := range o.answers {
		if a.answered && p.counts(a) {
			older.Answer(p.Incarnations, a.by)
			if !a.had.Carstamp.Less(own) && older.Quorum(p.Incarnations, 0) {
				v = a.had
				break
			}
		}
	}
	for _, a := range o.answers {
		if p.counts(a) && !(a.had.Carstamp.Less(v.Carstamp) && a.holds.Less(v.Carstamp)) {
			holders.Answer(p.Incarnations, a.by)
		}
	}
	return v, holders
}

// settle chooses what a regular read is answered with, once a quorum has answered, and reports false if it waits for
// more answers instead: none of which a quorum is known to hold will do yet, and more members have been asked.
func (p *Protocol) settle(o *operation) bool {
	if !o.holders.Quorum(p.Incarnations, p.Config.Self) {
		v, holders := p.oldest(o)
		if held := holders.Quorum(p.Incarnations, p.Config.Self); !held && o.asked.Count(p.Incarnations) < o.expected {
			return false
		} else if held && v.Carstamp.Less(o.chosen.Carstamp) {
			p.Took(pathReadOlder)
		}
		o.chosen = v
		o.holders.Copy(&holders)
	}
	o.expected = 0
	p.leave(p.reading, o)
	return true
}

// givesUpWaiting answers a regular read that has waited for long enough for more answers than a quorum's, and reports
// whether it did.
func (p *Protocol) givesUpWaiting(o *operation) bool {
	if o.expected == 0 {
		return false
	}
	o.expected = 0
	p.decide(o)
	if !o.Over && !o.second {
		return false // a quorum has not answered
	}
	p.contended.note(o.Key, -wideReads)
	return true
}

// leave takes an operation out of a list by key.
func (p *Protocol) leave(lists map[string][]uint64, o *operation) {
	if len(lists) == 0 {
		return
	}
	key := string(o.Key)
	lists[key] = slices.DeleteFunc(lists[key], func(number uint64) bool { return number == o.Number })
	if len(lists[key]) == 0 {
		delete(lists, key)
	}
}
