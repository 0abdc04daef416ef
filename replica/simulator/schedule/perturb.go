package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// Moment is a point in the run of a schedule.
type Moment struct {
	At      time.Duration
	Message uint64 // how many messages had been sent
	Member  int    // where it was, by the position of its node
}

// Bounds of what perturbations add up to.
const (
	maxStrikes    = 32
	maxRedraws    = 4
	maxFaults     = 40
	maxOperations = 180 // about as many as are drawn: what more of them saw takes much longer to check
)

// Perturb returns the schedule with one to three things changed, most of them near a moment of its run, which sent so
// many messages while faults went on. What happens before the first of them is as it was. Only faults of the options'
// kinds come, and no more that need members or disks to spare than there were.
func (s Schedule) Perturb(draw kernel.Stream, m Moment, messages uint64, options Options) Schedule {
	s.Clients, s.Faults = slices.Clone(s.Clients), slices.Clone(s.Faults)
	s.Strikes, s.Redraws = slices.Clone(s.Strikes), slices.Clone(s.Redraws)
	p := perturbation{&s, draw, m, messages, options}
	changes := p.changes()
	for left, tries := 1+draw.Below(3), 0; left > 0 && tries < 20; tries++ {
		if changes[draw.Below(len(changes))]() {
			left--
		}
	}
	s.SortFaults()
	return s
}

// Size is how many operations and faults there are.
func (s *Schedule) Size() int {
	size := len(s.Faults)
	for _, c := range s.Clients {
		size += len(c.Operations)
	}
	return size
}

// perturbation is one in progress.
type perturbation struct {
	*Schedule
	draw     kernel.Stream
	moment   Moment
	messages uint64
	options  Options
}

// changes are the things that may change, as often as their share is; each reports whether it could.
func (p *perturbation) changes() []func() bool {
	all := []func() bool{
		p.strikeMessage, p.strikeMessage, p.strikeMessage, p.redraw, p.redraw,
		p.moveFault, p.moveFault, p.removeFault, p.addFault, p.addFault, p.addFault,
		p.addOperation, p.addOperations, p.addOperations, p.moveOperation, p.changeKey, p.removeOperation, p.exchange,
	}
	if p.options.Regular {
		all = append(all, p.changeAside, p.changeAside)
	}
	return all
}

// allows reports whether faults of a kind may come.
func (p *perturbation) allows(kind faults.Kind) bool { return slices.Contains(p.options.Faults, kind) }

// near draws a time, most often near the moment.
func (p *perturbation) near() time.Duration {
	first, last := p.Settle/20, p.Settle*9/10
	if p.draw.Chance(250) {
		return p.draw.Between(first, last)
	}
	trip := p.Environment.Network.Largest()
	reach := []time.Duration{trip / 4, trip, 4 * trip, 4 * p.Environment.Retry}[p.draw.Below(4)]
	return min(max(p.moment.At+p.draw.Between(-reach, reach), first), last)
}

// site draws one, most often that of the moment.
func (p *perturbation) site() int {
	n := len(p.Environment.Network.Sites)
	if p.draw.Chance(500) && p.moment.Member >= 0 {
		return p.moment.Member % n
	}
	return p.draw.Below(n)
}

// strikeMessage has one message be lost or late.
func (p *perturbation) strikeMessage() bool {
	lose, overtake := p.allows(faults.Loss), p.allows(faults.Reorder)
	if p.messages == 0 || len(p.Strikes) >= maxStrikes {
		return false
	}
	strike := Strike{Message: 1 + uint64(p.draw.Below(int(p.messages)))}
	if p.draw.Chance(800) {
		reach := []int{4, 16, 64}[p.draw.Below(3)]
		strike.Message = uint64(max(1, int(p.moment.Message)+p.draw.Below(2*reach+1)-reach))
	}
	if lose && p.draw.Chance(400) {
		strike.Lost = true
	} else {
		longest := []time.Duration{p.Environment.Network.Largest(), p.Environment.Retry, 4 * p.Environment.Retry}[p.draw.Below(3)]
		strike.Late, strike.Overtaken = p.draw.Between(time.Millisecond, longest), overtake && p.draw.Chance(700)
	}
	p.Strikes = slices.DeleteFunc(p.Strikes, func(s Strike) bool { return s.Message == strike.Message })
	p.Strikes = append(p.Strikes, strike)
	return true
}

// redraw has the network's seed change from a time on.
func (p *perturbation) redraw() bool {
	at := p.near()
	p.Redraws = slices.DeleteFunc(p.Redraws, func(r Redraw) bool { return r.At >= at }) // it counts for nothing any more
	if len(p.Redraws) >= maxRedraws {
		return false
	}
	p.Redraws = append(p.Redraws, Redraw{at, p.draw.Uint64()})
	return true
}

// moveFault has a fault come at another time or place, or last for another time.
func (p *perturbation) moveFault() bool {
	if len(p.Faults) == 0 {
		return false
	}
	i := p.draw.Below(len(p.Faults))
	f := &p.Faults[i]
	n := len(p.Environment.Network.Sites)
	switch p.draw.Below(3) {
	case 0:
		return p.moveInTime(f)
	case 1:
		if f.Everywhere && f.Kind != faults.Partition || f.ByDefault {
			return false
		}
		if f.Kind == faults.Partition { // those that come later stay on their sides
			f.Side = f.Side>>n<<n | drawSide(p.draw, n)
		} else {
			f.Node = p.site()
		}
		return true
	}
	if !slices.Contains(p.options.plainKinds(), f.Kind) {
		return false
	}
	f.For = p.draw.Between(time.Millisecond, []time.Duration{p.Environment.Network.Largest(), 6 * p.Environment.Retry}[p.draw.Below(2)])
	return true
}

// moveInTime moves a fault. Changes of members stay in their order, since each is of the size that those before it lead
// to, and there has to be time for them; and so for disks that go back.
func (p *perturbation) moveInTime(f *faults.Fault) bool {
	at := p.near()
	if !slices.Contains(p.options.plainKinds(), f.Kind) {
		if f.Kind == faults.LostQuorum || at > p.Settle/2 {
			return false
		}
		if f.Kind == faults.Change {
			for _, other := range p.Faults {
				if other.Kind == faults.Change && (other.At-f.At)*(other.At-at) < 0 {
					return false
				}
			}
		}
	}
	f.At = at
	return true
}

// removeFault takes a fault out.
func (p *perturbation) removeFault() bool {
	if len(p.Faults) == 0 {
		return false
	}
	i := p.draw.Below(len(p.Faults))
	if p.Faults[i].Kind == faults.Change {
		return false // those after it are of the size that it leads to
	}
	p.Faults = slices.Delete(p.Faults, i, i+1)
	return true
}

// addFault puts a fault in, with its company.
func (p *perturbation) addFault() bool {
	kinds := p.options.plainKinds()
	if len(kinds) == 0 || len(p.Faults) >= maxFaults {
		return false
	}
	n := len(p.Environment.Network.Sites)
	drawn := Schedule{Settle: p.Settle, Environment: p.Environment}
	drawn.drawFaults(p.draw, n, []faults.Kind{kinds[p.draw.Below(len(kinds))]}, 1)
	if p.Environment.Partitioned != nil {
		fitPartitions(p.draw, n, drawn.Faults)
	}
	at, from, node := p.near(), drawn.Faults[0].At, p.site()
	if p.draw.Chance(500) {
		drawn.Faults[0].Node = node
	}
	for i := range drawn.Faults {
		drawn.Faults[i].At += at - from
	}
	p.Faults = append(p.Faults, drawn.Faults...)
	return true
}

// operations are how many clients plan.
func (p *perturbation) operations() (count int) {
	for _, c := range p.Clients {
		count += len(c.Operations)
	}
	return count
}

// pick draws one of the operations, as whose it is and which; there is one.
func (p *perturbation) pick() (client, index int) {
	left := p.draw.Below(p.operations())
	for i, c := range p.Clients {
		if left < len(c.Operations) {
			return i, left
		}
		left -= len(c.Operations)
	}
	panic("there are fewer operations than were counted")
}

// own lets the operations of a client be changed.
func (p *perturbation) own(client int) *Plan {
	c := &p.Clients[client]
	c.Operations, c.Asides = slices.Clone(c.Operations), slices.Clone(c.Asides)
	return c
}

// insert has a client do one operation more.
func (p *perturbation) insert(client int, o Planned) {
	c := p.own(client)
	at, _ := slices.BinarySearchFunc(c.Operations, o.At, func(o Planned, at time.Duration) int { return int(o.At - at) })
	c.Operations = slices.Insert(c.Operations, at, o)
}

// addOperation adds one that is like another one, with a value of its own.
func (p *perturbation) addOperation() bool {
	if count := p.operations(); count == 0 || count >= maxOperations {
		return false
	}
	client, index := p.pick()
	op := p.Clients[client].Operations[index].Operation
	p.renew(&op)
	p.insert(p.draw.Below(len(p.Clients)), Planned{p.near(), op})
	return true
}

// addOperations has several clients do something on one key at nearly one time.
func (p *perturbation) addOperations() bool {
	count := p.operations()
	if count == 0 || count+len(p.Clients) > maxOperations {
		return false
	}
	like, index := p.pick()
	key, at := p.Clients[like].Operations[index].Operation.Key, p.near()
	for i := range p.Clients {
		for _, o := range p.Clients[i].Operations {
			if o.Operation.Key != key || !p.draw.Chance(300) {
				continue
			}
			p.renew(&o.Operation)
			o.At = at + p.draw.Between(0, p.Environment.Network.Largest())
			p.insert(i, o)
			break
		}
	}
	return true
}

// exchange has everything that happens be that of another schedule, in the same environment.
func (p *perturbation) exchange() bool {
	if p.Environment.Partitioned != nil { // it has what the faults need
		return false
	}
	other := Draw(p.draw.Uint64(), p.options)
	if len(other.Environment.Network.Sites) != len(p.Environment.Network.Sites) {
		return false
	}
	other.scale(p.Environment.Retry, other.Environment.Retry)
	other.Environment = p.Environment
	*p.Schedule = other
	return true
}

// scale has everything take one time where it took another one.
func (s *Schedule) scale(now, then time.Duration) {
	scaled := func(t *time.Duration) { // no product of two of these has more than 63 bits
		*t = *t / time.Microsecond * (now / time.Microsecond) / (then / time.Microsecond) * time.Microsecond
	}
	scaled(&s.Settle)
	for i := range s.Clients {
		for j := range s.Clients[i].Operations {
			scaled(&s.Clients[i].Operations[j].At)
		}
		for j := range s.Clients[i].Asides {
			scaled(&s.Clients[i].Asides[j].At)
			scaled(&s.Clients[i].Asides[j].Delay)
		}
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		scaled(&f.At)
		scaled(&f.For)
		scaled(&f.Size)
	}
}

// renew gives an update a value that no other one has, as long as the one that it had.
func (p *perturbation) renew(op *register.Operation) {
	unique := strconv.Itoa((1_000_000 + p.draw.Below(1_000_000_000)) * 1000) // an integer, so that add applies to it
	if op.Value != nil {
		if short := len(op.Value) - len(unique); short > 0 {
			unique = strings.Repeat("0", short) + unique
		}
		op.Value = register.Value(unique)
	}
	switch f := op.Call.Function; f {
	case register.CompareAndSwap, register.GetAndSet, register.SetIfAbsent, register.Append, register.SetNewest:
		if f == register.Append || f == register.SetNewest {
			unique = fmt.Sprintf("<%s>", unique)
		}
		op.Call.Args = slices.Clone(op.Call.Args)
		op.Call.Args[len(op.Call.Args)-1] = []byte(unique)
	}
}

// moveOperation has one begin at another time, of another client perhaps.
func (p *perturbation) moveOperation() bool {
	if p.operations() == 0 {
		return false
	}
	client, index := p.pick()
	o := p.Clients[client].Operations[index]
	o.At = p.near()
	c := p.own(client)
	c.Operations = slices.Delete(c.Operations, index, index+1)
	if p.draw.Chance(500) {
		client = p.draw.Below(len(p.Clients))
	}
	p.insert(client, o)
	return true
}

// removeOperation takes one out.
func (p *perturbation) removeOperation() bool {
	if p.operations() == 0 {
		return false
	}
	client, index := p.pick()
	c := p.own(client)
	c.Operations = slices.Delete(c.Operations, index, index+1)
	return true
}

// changeKey has one be on another key, of those on which the same is done.
func (p *perturbation) changeKey() bool {
	if p.operations() == 0 {
		return false
	}
	client, index := p.pick()
	op := &p.own(client).Operations[index].Operation
	end := strings.LastIndexByte(op.Key, '-') + 1
	number, err := strconv.Atoi(op.Key[end:])
	if err != nil {
		return false
	}
	op.Key = op.Key[:end] + strconv.Itoa((number+1)%2)
	return true
}

// changeAside moves something that a session does between operations, or takes it out.
func (p *perturbation) changeAside() bool {
	client := p.draw.Below(len(p.Clients))
	if len(p.Clients[client].Asides) == 0 {
		return false
	}
	c := p.own(client)
	index := p.draw.Below(len(c.Asides))
	a := c.Asides[index]
	c.Asides = slices.Delete(c.Asides, index, index+1)
	if p.draw.Chance(300) {
		return true
	}
	a.At = p.near()
	at, _ := slices.BinarySearchFunc(c.Asides, a.At, func(a Aside, at time.Duration) int { return int(a.At - at) })
	c.Asides = slices.Insert(c.Asides, at, a)
	return true
}
