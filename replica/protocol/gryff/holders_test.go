package gryff

import (
	"encoding/binary"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// A fence at a member that is not named costs nothing if those who are named and that member are a quorum: of this
// view, with the disks that they have now.
func TestWhoIsNamedCountsInItsViewWithItsDisk(t *testing.T) {
	depends := completions(seen(ofRSC(5), true, register.Value("v")))[0].Result
	for name, c := range map[string]struct {
		change func(*Protocol, *register.Dependency)
		asked  int
	}{
		"as told":        {func(*Protocol, *register.Dependency) {}, 0},
		"a disk is lost": {func(p *Protocol, _ *register.Dependency) { p.Incarnations.Learn(2, 2) }, 1},
		"both are lost": {func(p *Protocol, _ *register.Dependency) {
			p.Incarnations.Learn(2, 2)
			p.Incarnations.Learn(1, 2)
		}, 2},
		"in another view":    {func(p *Protocol, _ *register.Dependency) { p.Config.View.Epoch++ }, 2},
		"nothing is told":    {func(_ *Protocol, d *register.Dependency) { d.Holders = nil }, 2},
		"it is cut off":      {func(_ *Protocol, d *register.Dependency) { d.Holders = d.Holders[:4] }, 1},
		"at one that is":     {func(p *Protocol, _ *register.Dependency) { p.Config.Self = 2; p.Config.Nearest[0] = 1 }, 1},
		"of nobody it knows": {func(_ *Protocol, d *register.Dependency) { d.Holders[1], d.Holders[3] = 77, 78 }, 2},
	} {
		p := ofRSC(5)
		p.Config.Self, p.Config.Nearest = 4, []view.MemberID{2, 1, 3, 5}
		r := after(1, register.Fence, 0)
		d := &r.Operation.After[0]
		d.Holders = append([]byte(nil), depends.Holders...)
		c.change(p, d)
		p.Submit(r)
		e := p.Ready()
		if messages := sent(e); len(messages) != c.asked || (len(completions(e)) == 1) != (c.asked == 0) {
			t.Errorf("%s: %v is sent, want %d messages, and %d fences end", name, kindsOf(messages), c.asked,
				len(completions(e)))
		}
	}
}

// Members with the highest numbers, whose disks were lost as often as can be, are named as far as there is room.
func TestHoldersAreBounded(t *testing.T) {
	p := ofRSC(5)
	p.Config.View.Epoch = view.MaxEpoch
	o := p.begin(protocol.Request{Operation: register.Operation{Kind: register.Read, Key: "k"}})
	all := []view.MemberID{1}
	for id := range view.MemberID(20) {
		all = append(all, view.MaxMemberID-id)
	}
	p.Config.Nearest = all[1:]
	for _, id := range p.Config.Nearest {
		o.holders.Answer(p.Incarnations, id)
	}
	told := p.holders(o)
	if len(told) > register.MaxHoldersBytes || len(told) < register.MaxHoldersBytes-6 {
		t.Errorf("%d bytes are told", len(told))
	}
	rest := told
	for len(rest) > 0 {
		_, n := binary.Uvarint(rest)
		if n <= 0 {
			t.Fatalf("%x is no list of numbers", told)
		}
		rest = rest[n:]
	}
}
