package bounds_test

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/view"
)

// A kind says which part of a message to look at. Who sends a kind without its part, with an empty one, or with one of
// another protocol, stops no member.
func TestKindsWithoutTheirParts(t *testing.T) {
	for _, name := range catalog.Names() {
		t.Run(name, func(t *testing.T) {
			for number, kind := range peerv1.Kind_name {
				if peerv1.Kind(number) == peerv1.Kind_WITNESS {
					continue
				}
				for _, m := range []*peerv1.Message{
					{},
					{Key: []byte("k")},
					{Key: []byte("k"), Raft: []byte{}, Curp: &peerv1.Curp{}, Gus: &peerv1.Gus{}, RmwPaxos: &peerv1.RMWPaxos{},
						Fragment: &peerv1.Fragment{}, Instance: &peerv1.Instance{}, Transfer: &peerv1.Transfer{}},
				} {
					m.Kind, m.Epoch = peerv1.Kind(number), 1
					w := found(t, name)
					w.use(2, 1)
					for _, to := range []view.MemberID{1, 3} {
						w.deliver(sent{2, to, m.CloneVT()})
					}
					w.settle()
					w.use(0, 1)
					for _, fault := range w.faults {
						if fault != nil {
							t.Errorf("%s: it stops: %v", kind, fault)
						}
					}
				}
			}
		})
	}
}
