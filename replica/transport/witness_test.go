package transport

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/listenertest"
	"github.com/georegister/georegister/witness"
	"github.com/georegister/georegister/witness/manage"
)

// witnessID is that of the witness of these tests.
const witnessID = 9

// runWitness starts a witness, and returns where it is, how to manage it and how to stop it.
func runWitness(t *testing.T, cluster, directory string) (address string, conn *manage.Conn, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- witness.Run(ctx, witness.Config{
			Cluster: cluster, Self: witnessID, Directory: directory, Durability: witness.Sync,
			Listen: witness.Listen{Peer: "127.0.0.1:0"},
		}, witness.Options{Listening: func(peer net.Addr) { listening <- peer.String() }})
	}()
	select {
	case address = <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	conn = manage.Dial(cluster, witnessID, address)
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return address, conn, stop
}

// begin begins a life for term 1 of a partition.
func begin(t *testing.T, conn *manage.Conn, partition int) (disk string) {
	t.Helper()
	report, err := conn.Report(t.Context())
	if err == nil {
		err = conn.Start(t.Context(), partition, 1, report.Disk)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report.Disk
}

// member is one that is alone but for the witness.
func member(t *testing.T, w view.Witness, change func(*Options)) (*Transport, *inbox) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in := &inbox{}
	o := Options{
		View: view.View{
			Cluster: "c", Epoch: 1, Members: []view.Member{{ID: 1, Address: listener.Addr().String()}},
			Witnesses: []view.Witness{w},
		},
		Self: 1, Protocol: "toy", Shards: 4, Listener: listener, Handler: in.handle,
	}
	if change != nil {
		change(&o)
	}
	end, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end.Close(); err != nil {
			t.Error(err)
		}
	})
	return end, in
}

func ask(kind witnessv1.Kind, op, hash uint64) *peerv1.Message {
	return &peerv1.Message{Kind: peerv1.Kind_WITNESS, Shard: 3, Witness: &witnessv1.Message{
		Kind: kind, Op: op, Partition: 3, Term: 1, Hashes: []uint64{hash}, Id: &witnessv1.ID{Session: 5, Number: op},
		Request: []byte("request"),
	}}
}

func (i *inbox) answer(op uint64) *peerv1.Message {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, m := range i.messages {
		if m.Witness.Op == op {
			return m
		}
	}
	return nil
}

func TestAWitnessIsAsked(t *testing.T) {
	address, conn, _ := runWitness(t, "c", t.TempDir())
	disk := begin(t, conn, 3)
	// The distance is gone both ways, though the witness knows of none.
	end, in := member(t, view.Witness{ID: witnessID, Address: address, Disk: disk}, func(o *Options) {
		o.OneWayDelay = func(view.MemberID) time.Duration { return 3 * time.Millisecond }
	})
	const n = 2000
	for op := range uint64(n) {
		end.Send(witnessID,
			[]*peerv1.Message{ask(witnessv1.Kind_RECORD, op+1, op+1), ask(witnessv1.Kind_CHECK, n+op+1, 1<<40+op)})
	}
	listenertest.WaitUntil(t, "all is answered", func() bool { return in.answer(n) != nil && in.answer(2*n) != nil })
	for _, op := range []uint64{1, n, n + 1, 2 * n} {
		if m := in.answer(op); m.Kind != peerv1.Kind_WITNESS || m.Shard != 3 || !m.Witness.Accepted {
			t.Errorf("question %d is answered %v", op, m)
		}
	}
	got := end.Witnesses()
	if len(got) != 1 || got[0].ID != witnessID || !got[0].Connected || !got[0].Reachable ||
		got[0].MinRTT < 6*time.Millisecond || got[0].Sent != 2*n || got[0].Received != 2*n || got[0].Dropped != 0 {
		t.Errorf("the witness: %+v", got)
	}
	if rtt, reachable := end.Distance(witnessID); !reachable || rtt != got[0].MinRTT {
		t.Errorf("its distance: %s, %t", rtt, reachable)
	}
}

func TestTheLinkToAWitnessIsCutAndMended(t *testing.T) {
	address, conn, _ := runWitness(t, "c", t.TempDir())
	end, in := member(t, view.Witness{ID: witnessID, Address: address, Disk: begin(t, conn, 3)}, nil)
	reachable := func() bool { _, reachable := end.Distance(witnessID); return reachable }
	listenertest.WaitUntil(t, "it answers", reachable)
	if err := end.Block(witnessID, Outgoing|Incoming); err != nil {
		t.Fatal(err)
	}
	end.Send(witnessID, []*peerv1.Message{ask(witnessv1.Kind_RECORD, 1, 7)})
	listenertest.WaitUntil(t, "it does not answer", func() bool { return !reachable() })
	if err := end.Block(witnessID, 0); err != nil {
		t.Fatal(err)
	}
	listenertest.WaitUntil(t, "it answers again", reachable)
	end.Send(witnessID, []*peerv1.Message{ask(witnessv1.Kind_CHECK, 2, 7)})
	listenertest.WaitUntil(t, "a question is answered", func() bool { return in.answer(2) != nil })
	if in.answer(1) != nil || !in.answer(2).Witness.Accepted {
		t.Errorf("what was asked while the link was cut arrived: %v, %v", in.answer(1), in.answer(2))
	}
	if err := end.Block(8, Outgoing); err == nil || !strings.Contains(err.Error(), "no peer or witness 8") {
		t.Errorf("an unknown one: %v", err)
	}
}

// A witness that comes back elsewhere is found, and is not filled with what was asked while it was away.
func TestAWitnessComesBack(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "w")
	at, conn, stop := runWitness(t, "c", directory)
	disk := begin(t, conn, 3)
	places := make(chan string, 1)
	places <- at
	end, in := member(t, view.Witness{ID: witnessID, Address: "witness:7000", Disk: disk}, func(o *Options) {
		o.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
			place := <-places
			places <- place
			return dialTCP(ctx, place)
		}
	})
	listenertest.WaitUntil(t, "it answers", func() bool { _, reachable := end.Distance(witnessID); return reachable })
	stop()
	asked := uint64(0)
	listenertest.WaitUntil(t, "a question is dropped", func() bool {
		asked++
		end.Send(witnessID, []*peerv1.Message{ask(witnessv1.Kind_RECORD, asked, 7)})
		return end.Witnesses()[0].Dropped > 0
	})
	listenertest.WaitUntil(t, "all of them are", func() bool {
		w := end.Witnesses()[0]
		return w.Sent+w.Dropped >= asked && !w.Connected
	})
	at, _, _ = runWitness(t, "c", directory)
	<-places
	places <- at
	listenertest.WaitUntil(t, "it answers again", func() bool {
		end.Send(witnessID, []*peerv1.Message{ask(witnessv1.Kind_CHECK, 1<<40, 7)})
		return in.answer(1<<40) != nil
	})
	// It has just started: somebody has to vouch for its disk.
	vouch := ask(witnessv1.Kind_VOUCH, 0, 0)
	vouch.Witness.Start, vouch.Witness.Disk, vouch.Witness.Voters = in.answer(1<<40).Witness.Start, disk, 1
	end.Send(witnessID, []*peerv1.Message{vouch, ask(witnessv1.Kind_CHECK, 1<<40+1, 7)})
	listenertest.WaitUntil(t, "it promises again", func() bool { return in.answer(1<<40+1) != nil })
	if m := in.answer(1<<40 + 1); !m.Witness.Accepted {
		t.Errorf("what was asked long ago arrived: %v", m)
	}
}

func TestAWitnessThatIsAnotherOneIsTold(t *testing.T) {
	address, conn, _ := runWitness(t, "other", t.TempDir())
	end, _ := member(t, view.Witness{ID: witnessID, Address: address, Disk: begin(t, conn, 3)}, nil)
	listenertest.WaitUntil(t, "it refuses", func() bool {
		return strings.Contains(end.Witnesses()[0].Refused, `cluster "c" is not "other"`)
	})
	if end.Witnesses()[0].Connected || end.Witnesses()[0].Reachable {
		t.Errorf("a witness of another cluster: %+v", end.Witnesses()[0])
	}

	address, conn, _ = runWitness(t, "c", t.TempDir())
	begin(t, conn, 3)
	core, logged := observer.New(zap.WarnLevel)
	end, _ = member(t, view.Witness{ID: witnessID, Address: address, Disk: "lost"}, func(o *Options) {
		o.Logger = zap.New(core)
	})
	listenertest.WaitUntil(t, "it answers", func() bool { return end.Witnesses()[0].Reachable })
	entries := logged.TakeAll()
	if len(entries) != 1 || !strings.Contains(entries[0].Message, "on another disk than the view names") {
		t.Errorf("logged %v", entries)
	}
}

// The transport of the next view does not take for away who was heard a moment ago.
func TestDistancesAreHandedOver(t *testing.T) {
	address, conn, stop := runWitness(t, "c", t.TempDir())
	w := view.Witness{ID: witnessID, Address: address, Disk: begin(t, conn, 3)}
	first, _ := member(t, w, nil)
	listenertest.WaitUntil(t, "it answers", func() bool { _, reachable := first.Distance(witnessID); return reachable })
	rtt, _ := first.Distance(witnessID)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	stop()
	next, _ := member(t, w, func(o *Options) { o.Distances = first.Distances() })
	if again, reachable := next.Distance(witnessID); !reachable || again > rtt {
		t.Errorf("the next transport: %s, %t", again, reachable)
	}
	listenertest.WaitUntil(t, "it is gone", func() bool { _, reachable := next.Distance(witnessID); return !reachable })
}
