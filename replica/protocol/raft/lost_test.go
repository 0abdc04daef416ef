package raft

import (
	"os"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

// lone is member 1 of three, on an empty disk.
func lone() (*Protocol, *quorum.Incarnations, *protocol.Journal) {
	c := protocol.Config{
		Self: 1, View: view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}},
		Nearest: []view.MemberID{2, 3}, Boot: 1, Retry: time.Second, Suspect: 3 * time.Second,
		Functions: register.NewRegistry(),
	}
	r, j := quorum.FirstDisks(c.View), protocol.NewJournal(protocoltest.Disk{})
	return New(c, j, r, nil), r, j
}

// turn takes what the member says, as messages of the library; its batch is durable at once.
func turn(t *testing.T, p *Protocol, j *protocol.Journal) (said []*raftpb.Message) {
	t.Helper()
	e := p.Ready()
	if e.Fault != nil {
		t.Fatal(e.Fault)
	}
	j.Persisted(e.Persist.Sequence)
	for _, s := range append(e.Send, e.SendAfterPersist...) {
		m := &raftpb.Message{}
		if err := proto.Unmarshal(s.Message.Raft, m); err != nil {
			t.Fatal(err)
		}
		said = append(said, m)
	}
	return said
}

func hear(t *testing.T, p *Protocol, m *raftpb.Message) {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	p.Receive(view.MemberID(m.GetFrom()), &peerv1.Message{Kind: peerv1.Kind_RAFT, Raft: raw})
}

func TestMain(m *testing.M) { os.Exit(mutants.Main(m)) }

// What a leader counted of a disk that is lost is void: it begins anew.
func TestLeaderCountsNoLostDisk(t *testing.T) {
	test := func(t *testing.T, mistake bool) {
		p, incarnations, j := lone()
		p.Tick(0)
		for range 2 { // pre-votes, then votes
			for _, m := range turn(t, p, j) {
				if answer, asks := map[raftpb.MessageType]*raftpb.MessageType{
					raftpb.MsgPreVote: raftpb.MsgPreVoteResp.Enum(), raftpb.MsgVote: raftpb.MsgVoteResp.Enum(),
				}[m.GetType()]; asks {
					hear(t, p, &raftpb.Message{Type: answer, From: m.To, To: m.From, Term: m.Term})
				}
			}
		}
		turn(t, p, j)
		if !p.elect.leads() {
			t.Fatal("not elected by all")
		}
		incarnations.Learn(3, 2)
		turn(t, p, j)
		if p.elect.leads() != mistake {
			t.Errorf("it leads on: %v", p.elect.leads())
		}
	}
	t.Run("correct", func(t *testing.T) { test(t, false) })
	mutants.Build(t).Run(t, "mistake", "raft/count-dead-disks", func(t *testing.T) { test(t, true) })
}
