package transport

import (
	"net"
	"strings"
	"sync"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
	"github.com/georegister/georegister/test/listenertest"
)

// told remembers the newer views that a transport heard of.
type told struct {
	mutex sync.Mutex
	views []view.View
}

func (o *told) hear(v view.View) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.views = append(o.views, v)
}

func (o *told) latest() view.View {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.views) == 0 {
		return view.View{}
	}
	return o.views[len(o.views)-1]
}

// greet connects to the second end of a pair with the hello of the first one, changed, and returns the answer.
func (p *pair) greet(t *testing.T, change func(*peerv1.Hello)) *peerv1.Frame {
	t.Helper()
	connection, err := dialTCP(t.Context(), p.view.Members[1].Address)
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(t.Context(), connection)
	defer s.close()
	hello := p.ends[0].hello(2)
	change(hello)
	if err := s.send(&peerv1.Frame{Hello: hello}); err != nil {
		t.Fatal(err)
	}
	reply, err := s.hello()
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// Also a stream that goes round the client's side of the transport is refused by its first frame; whoever is behind is
// told the view, even if it is not named by it, and nobody else is.
func TestHellos(t *testing.T) {
	p := newPair(t, func(_ int, o *Options) {
		o.View.Epoch = 4
		o.View.Members = append([]view.Member{{ID: 3, Joining: true}, {ID: 4, Leaving: true}}, o.View.Members...)
	})
	for name, test := range map[string]struct {
		change func(*peerv1.Hello)
		behind bool
		says   string // empty: it is not refused
	}{
		"as it should be": {func(*peerv1.Hello) {}, false, ""},
		"without an epoch": {func(h *peerv1.Hello) {
			h.Epoch = 0
		}, true, "member 1 is at epoch 0, behind epoch 4 of member 2"},
		"behind": {func(h *peerv1.Hello) {
			h.Epoch = 3
			h.Members = nil
		}, true, "member 1 is at epoch 3, behind epoch 4 of member 2"},
		"behind, and removed": {func(h *peerv1.Hello) {
			h.Epoch, h.Member = 3, 9
		}, true, "member 9 is at epoch 3, behind epoch 4 of member 2"},
		"ahead": {func(h *peerv1.Hello) {
			h.Epoch = 9
		}, true, "member 2 is at epoch 4, behind epoch 9 of member 1"},
		"ahead, and unknown": {func(h *peerv1.Hello) {
			h.Epoch, h.Member = 9, 9
		}, true, "member 2 is at epoch 4, behind epoch 9 of member 9"},
		"unknown": {func(h *peerv1.Hello) {
			h.Member = 9
		}, false, "member 9 is not in the view of epoch 4"},
		"other members": {func(h *peerv1.Hello) {
			h.Members[0] = 9
		}, false, "there are two views of one epoch"},
		"nobody joins": {func(h *peerv1.Hello) {
			h.Joining = nil
		}, false, "there are two views of one epoch"},
		"others leave": {func(h *peerv1.Hello) {
			h.Leaving = []uint32{2}
		}, false, "there are two views of one epoch"},
		"behind, and other shards": {func(h *peerv1.Hello) {
			h.Epoch, h.Shards = 3, 9
		}, false, "9 shards"},
		"behind, of another one": {func(h *peerv1.Hello) {
			h.Epoch, h.Cluster = 3, "d"
		}, false, `cluster "d"`},
		"behind, at a wrong number": {func(h *peerv1.Hello) {
			h.Epoch, h.To = 3, 1
		}, false, "member 1 was called at the address of member 2"},
	} {
		reply := p.greet(t, test.change)
		if r := reply.Refusal; (r != nil) != (test.says != "") || r.GetBehind() != test.behind ||
			!strings.Contains(r.GetReason(), test.says) {
			t.Errorf("%s: %v, want %q", name, r, test.says)
		}
		if !test.behind || strings.HasPrefix(name, "ahead") {
			if len(reply.Hello.GetView()) > 0 {
				t.Errorf("%s: it is told a view", name)
			}
			continue
		}
		v, err := wire.Unmarshal(reply.Hello.GetView())
		if err != nil || v.Digest() != p.ends[1].options.View.Digest() {
			t.Errorf("%s: it is told %+v (%v)", name, v, err)
		}
	}
}

// Who of the two is behind learns the newer view, whoever calls first; over a link that is cut, nobody does.
func TestTheOneBehindIsTold(t *testing.T) {
	var heard [2]told
	p := newPair(t, func(i int, o *Options) { o.Newer = heard[i].hear })
	if err := p.ends[0].Block(2, Incoming); err != nil {
		t.Fatal(err)
	}
	p.renew(t, 1, 2)
	listenertest.WaitUntil(t, "the one behind is refused", func() bool {
		return strings.Contains(p.ends[0].Peers()[0].Refused, "it needs the newer view")
	})
	if v := heard[0].latest(); v.Epoch != 0 {
		t.Errorf("over a link that is cut it is told %+v", v)
	}
	if err := p.ends[0].Block(2, 0); err != nil {
		t.Fatal(err)
	}
	want := p.view
	want.Epoch = 2
	listenertest.WaitUntil(t, "the one behind is told", func() bool { return heard[0].latest().Epoch > 0 })
	if got := heard[0].latest(); got.Digest() != want.Digest() {
		t.Errorf("told %+v, want %+v", got, want)
	}
	if v := heard[1].latest(); v.Epoch != 0 {
		t.Errorf("the one ahead is told %+v", v)
	}
}

// FuzzLearn shows that whatever a peer tells, only valid views of later epochs are passed on.
func FuzzLearn(f *testing.F) {
	v := view.View{
		Cluster: "c", Epoch: 5,
		Members: []view.Member{{ID: 1, Address: "127.0.0.1:1"}, {ID: 2, Address: "127.0.0.1:2", Leaving: true}},
	}
	for epoch := range uint64(7) {
		v.Epoch = epoch
		data, err := wire.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	v.Epoch = 4
	var heard told
	end, err := Start(
		Options{
			View: v, Self: 1, Listener: listener, Handler: func(view.MemberID, []*peerv1.Message) {}, Newer: heard.hear,
		})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := end.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		heard.views = nil
		end.peers[2].learn(data)
		for _, v := range heard.views {
			if v.Epoch <= 4 || v.Validate() != nil {
				t.Errorf("passed on %+v", v)
			}
		}
	})
}
