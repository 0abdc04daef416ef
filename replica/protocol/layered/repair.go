package layered

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// A member may miss its fragment without having lost its disk: STORE was lost, and k + f others were enough. If its
// register has the value for good all the same, it makes its fragment of those of k others, so that more than f may be
// lost again.
//
// Nothing waits for a repair: no vote, no change of the view, no operation. So nothing of it is on disk before the
// fragment is; what a process did not end, its next one finds again.

const (
	surveyRegisters = 64 // how many registers are looked at in Config.Suspect
	maxRepairs      = 4  // how many fragments are known to be missing at once
)

// missed is a fragment that this member should have, and has not.
type missed struct {
	key   []byte
	value metadata
	due   protocol.Instant // when to fetch others, then when to give up: to be found again if it is still missing
	fetch *fetch           // nil: not yet
}

// repair goes on with the fragments that are known to be missing, and looks for more.
func (p *Protocol) repair() {
	if p.Now < p.survey || p.code == nil || p.Config.View.Joint() { // a change has fragments rebuilt of its own
		return
	}
	p.survey = p.Now.Add(p.Config.Suspect)
	p.repairs = slices.DeleteFunc(p.repairs, func(r *missed) bool {
		switch {
		case r.fetch == nil && !p.misses(r.key, r.value.name): // it was on its way
			return true
		case r.fetch == nil && p.Now >= r.due:
			r.due = p.Now.Add(p.attempt())
			p.fetchMissed(r)
			return false
		case r.fetch != nil && (r.fetch.Over || p.Now >= r.due || !p.misses(r.key, r.value.name)):
			p.fetches.End(r.fetch)
			return true
		}
		return false
	})
	p.look()
}

// attempt is how long others are asked for fragments, so that one that few have does not keep others from being
// repaired.
func (p *Protocol) attempt() time.Duration { return 4 * p.Config.Retry }

// look finds fragments that are missing.
func (p *Protocol) look() {
	if len(p.repairs) == maxRepairs {
		return
	}
	left, after := cmp.Or(p.Config.Tuning.Looked, surveyRegisters), p.surveyed
	p.surveyed = nil // from the beginning, unless there is more
	p.inner.Registers(after, func(key []byte, value register.Value, final bool) bool {
		if d, large := reference(value); large && final && !p.attempted(d.name) {
			if _, here := p.known(key, d.name); !here {
				p.repairs = append(p.repairs, &missed{key: bytes.Clone(key), value: d, due: p.Now.Add(p.Config.Retry)})
			}
		}
		if left--; left == 0 || len(p.repairs) == maxRepairs {
			p.surveyed = bytes.Clone(key)
			return false
		}
		return true
	})
}

func (p *Protocol) attempted(n name) bool {
	return slices.ContainsFunc(p.repairs, func(r *missed) bool { return r.value.name == n })
}

// misses reports whether a value is this member's register's, for good, and no fragment of it is here.
func (p *Protocol) misses(key []byte, n name) bool {
	if _, ok := p.known(key, n); ok {
		return false
	}
	values, final := p.inner.Known(key)
	return final && refers(values[:1], n)
}

// fetchMissed asks for the fragments of others. It asks as a read does: nobody takes it for a disk that was lost.
func (p *Protocol) fetchMissed(r *missed) {
	f := p.newFetch(r.key, r.value.name)
	f.repair, f.value = true, r.value
	f.answered.Answer(p.Incarnations, p.Config.Self)
	f.absent.Answer(p.Incarnations, p.Config.Self)
	r.fetch = f
	p.ask(f, f.answered.Ask(&p.Config, p.Now, p.code.k))
}

// repaired makes this member's own fragment of k others, unless the register has something else by now. That the
// register had the value for good is noted with it, so that it goes when the register has something else, whatever
// became of the writer.
func (p *Protocol) repaired(f *fetch) {
	if !p.misses(f.Key, f.name) {
		p.Took(pathRepairOver)
		return
	}
	if _, err := p.restored(f); err == nil { // else who reads it is told
		p.makeOwn(f, peerv1.FragmentState_FRAGMENT_WRITTEN, pathRepaired)
	}
}
