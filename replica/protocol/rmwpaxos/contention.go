package rmwpaxos

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Duelling proposers (section 5.1) are kept apart in two ways. A member that loses a round hands its batches to the one
// proposer of the key, for a while: the first member, in an order that the key gives, which is not silent (the leader
// of sections 5.7 and 7.4, for hot keys alone). While that one is alive it has the right of way: it asks for rounds
// that are well above all that it has heard of, and does not wait. Who else proposes all the same waits for a random
// time after each round that it lost, which grows with their number, and with what the longest of them took.

// patience is what the times below are counted in: the suspect time, unless that is too short for anybody to answer.
func (p *Protocol) patience() time.Duration { return max(p.Config.Suspect, 3*p.Config.Retry) }

// hotFor is how long a key stays hot. Then a member tries again on its own: the others may have gone.
const hotFor = 8

// silentFor is how long a proposer that did not answer is passed over, unless it is heard.
const silentFor = 4

// stride is how far above all rounds that it knows of the key's proposer asks for one: each vote of another one takes
// the next.
const stride = 8

// rightOfWay is how many rounds in a row the key's proposer may lose before it waits, too.
const rightOfWay = 8

// handedFor is how long a batch stays with a proposer that is alive: it may be cut off from the others. With each time
// that this is in vain, it is twice as long: the proposer may only be slow, and loses rounds to those who wait for it.
const handedFor = 4

// guestFor is how long another member's batch is kept after it was last sent.
const guestFor = 4

// lose goes on after a round that was lost. Acceptors that disagree may only have missed something; then a higher round
// is asked for at once (algorithm 3, lines 21 to 24).
func (p *Protocol) lose(o *object, d *instance) {
	d.highest = max(d.highest, d.replies.promised())
	p.Lose(&d.lost, d.began)
	for _, b := range d.batches {
		if o.isMine(b) {
			b.lost = d.lost
		}
	}
	o.lead = lead{}
	if d.lost.Ballots == 1 && d.stage == preparing && (p.options.Insist || !d.replies.contended()) {
		p.prepare(o, d, d.highest+1)
		return
	}
	p.Took(pathContention)
	o.hot = p.Now.Add(hotFor * p.patience())
	to := p.proposerOf(o)
	others := slices.ContainsFunc(d.batches, func(b *batch) bool { return !o.isMine(b) })
	if to != p.Config.Self && len(d.batches) > 0 && !others {
		o.instance = nil
		for _, b := range d.batches {
			b.trips += d.trips
			p.hand(o, b, to)
		}
		return
	}
	most := uint64(1) << min(d.lost.Ballots, 5)
	if to == p.Config.Self {
		if d.lost.Ballots <= rightOfWay {
			if !p.options.Insist {
				most = stride
			}
			p.prepare(o, d, d.highest+most)
			return
		}
		most = 8 // two may take themselves for the key's proposer
	}
	p.Took(pathBackOff)
	d.stage = backingOff
	d.op = p.Op() // nothing is waited for
	d.until = p.BackOff(&d.lost, most)
}

// heed notes that the key's proposer proposes for all: who is faster than it would never lose a round to it, and would
// not learn of those who do.
func (p *Protocol) heed(from view.MemberID, m *peerv1.Message) {
	if !m.RmwPaxos.Hot {
		return
	}
	known := p.objects[string(m.Key)] != nil
	o := p.object(m.Key)
	if p.proposerOf(o) == from {
		if o.hot <= p.Now {
			p.Took(pathHeeded)
		}
		o.hot = p.Now.Add(hotFor * p.patience())
	}
	if !known {
		p.release(o)
	}
}

// proposerOf is the one that hot keys are proposed by.
func (p *Protocol) proposerOf(o *object) view.MemberID {
	members := p.Config.View.Members
	first := int(register.Hash(o.key) % uint64(len(members)))
	for i := range members {
		id := members[(first+i)%len(members)].ID
		if until, silent := p.silent[id]; id == p.Config.Self || !silent || p.Now >= until {
			return id
		}
	}
	return p.Config.Self
}

// hand gives a batch of this member to the key's proposer. It is known by its number, so that it does no harm if both
// of them propose it. Each time it is handed over under the same number of a question: what comes of it is told once,
// and may be on its way.
func (p *Protocol) hand(o *object, b *batch, to view.MemberID) {
	p.Took(pathHand)
	if b.op == 0 {
		b.op = p.Op()
	}
	b.to, b.left, b.stays = to, true, false
	vain := min(b.vain, 5)
	b.again, b.giveUp = p.Now.Add(p.Config.Retry), p.Now.Add(min(p.Config.Suspect<<vain, p.patience()))
	b.latest = p.Now.Add(handedFor * p.patience() << vain)
	b.trips++
	p.Send(to, p.handed(o, b))
}

func (p *Protocol) handed(o *object, b *batch) *peerv1.Message {
	m := p.Say(peerv1.Kind_PAXOS_HAND, b.op, o.key)
	m.Instance = &peerv1.Instance{Id: &peerv1.InstanceID{Writer: uint64(b.author), Number: b.number}, Commands: b.commands}
	return m
}

// tickHanded sends a batch again, or takes it back from a proposer that is silent.
func (p *Protocol) tickHanded(o *object, b *batch) {
	switch {
	case p.Now >= b.giveUp:
		p.Took(pathTakenBack)
		p.silent[b.to] = p.Now.Add(silentFor * p.patience())
		b.to, b.stays = 0, true
		b.vain++ // it is given more time when it gets the batch again
	case p.Now >= b.again:
		b.again = p.Now.Add(p.Config.Retry)
		p.Send(b.to, p.handed(o, b))
	}
}

// onHand takes a batch of another member.
func (p *Protocol) onHand(from view.MemberID, m *peerv1.Message) {
	author := register.Writer(m.GetInstance().GetId().GetWriter())
	if author.Member() != uint32(from) || author.Incarnation() != uint32(p.Incarnations.Of(from))&0xffff ||
		author.Boot() >= lanes || len(m.Instance.Commands) == 0 {
		return
	}
	o := p.object(m.Key)
	o.hot = p.Now.Add(hotFor * p.patience())
	number := m.Instance.Id.Number
	proposed := func(b *batch) bool { return o.instance != nil && slices.Contains(o.instance.batches, b) }
	for _, b := range o.guests {
		if b.author == author && b.number == number {
			b.op, b.until = m.Op, p.Now.Add(guestFor*p.patience())
			p.Send(from, p.Say(peerv1.Kind_PAXOS_HANDED, m.Op, m.Key)) // it is being worked on
			return
		}
	}
	o.guests = slices.DeleteFunc(o.guests, func(b *batch) bool { return b.author == author && !proposed(b) })
	o.guests = append(o.guests, &batch{
		author: author, number: number, commands: m.Instance.Commands, from: from, op: m.Op,
		until: p.Now.Add(guestFor * p.patience()),
	})
	p.advanceLater(o)
}

// handBack answers a batch of another member.
func (p *Protocol) handBack(o *object, b *batch, answers []*peerv1.Answer) {
	o.guests = slices.DeleteFunc(o.guests, func(g *batch) bool { return g == b })
	m := p.Say(peerv1.Kind_PAXOS_HANDED, b.op, o.key)
	m.RmwPaxos.Trips = uint32(b.trips)
	m.Instance = &peerv1.Instance{Id: &peerv1.InstanceID{Writer: uint64(b.author), Number: b.number}, Answers: answers}
	p.Reply(b.from, m)
}

// onHanded ends a batch that another member has proposed, though it was taken back meanwhile, or leaves it there for
// longer.
func (p *Protocol) onHanded(m *peerv1.Message) {
	o := p.objects[string(m.Key)]
	if o == nil {
		p.Took(base.PathStale)
		return
	}
	at := slices.IndexFunc(o.mine, func(b *batch) bool { return b.op == m.Op && m.Op != 0 })
	if at < 0 {
		p.Took(base.PathStale)
		return
	}
	b := o.mine[at]
	switch {
	case m.Instance == nil && b.to != 0:
		p.Took(pathStillHanded)
		b.giveUp = min(max(b.giveUp, p.Now.Add(p.patience())), b.latest)
		return
	case len(m.GetInstance().GetAnswers()) != len(b.commands):
		p.Took(base.PathStale)
		return
	}
	p.drop(o, b)
	b.trips += int(m.RmwPaxos.Trips)
	p.answer(o, b, b.recall(m.Instance.Answers))
	p.advanceLater(o)
}
