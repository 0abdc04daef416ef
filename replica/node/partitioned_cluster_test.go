package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness"
	"github.com/georegister/georegister/witness/manage"
	"github.com/georegister/georegister/witness/server"
)

// partitioned is a cluster of a protocol with masters, in this process: members, a witness beside each, and who manages
// them.
type partitioned struct {
	t         testing.TB
	members   cast
	witnesses map[view.MemberID]*witnessed
	order     []view.MemberID // of members
	view      view.View
	placement membership.Placement
	named     []view.Witness                 // beside newcomers
	heard     map[[2]view.MemberID]time.Time // when one member said last that it hears another, or was asked first
}

// suspectAfter is for how long the manager takes nobody for away whom a member has not heard, or not yet.
const suspectAfter = 2 * time.Second

// hears reports whether a member counts as hearing another one.
func (p *partitioned) hears(id view.MemberID, peer *adminv1.Peer) bool {
	pair := [2]view.MemberID{id, view.MemberID(peer.Member)}
	last, known := p.heard[pair]
	if !known || peer.Reachable {
		last = time.Now()
		p.heard[pair] = last
	}
	return time.Since(last) < suspectAfter
}

// witnessed is a witness in this process.
type witnessed struct {
	config witness.Config
	conn   *manage.Conn
	stop   context.CancelFunc
	ended  chan struct{}
}

func (p *partitioned) witness(c witness.Config) *witnessed {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &witnessed{config: c, stop: stop, ended: make(chan struct{})}
	w.conn = manage.Dial("c", view.MemberID(c.Self), c.Listen.Peer)
	go func() {
		defer close(w.ended)
		if err := witness.Run(ctx, c, witness.Options{}); err != nil {
			p.t.Errorf("witness %d: %v", c.Self, err)
		}
	}()
	p.t.Cleanup(func() {
		stop()
		<-w.ended
		_ = w.conn.Close()
	})
	return w
}

func (w *witnessed) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// end stops a witness.
func (w *witnessed) end() {
	w.stop()
	<-w.ended
}

// newPartitioned founds a cluster of that many members, each at a site of its own, with as many partitions, and has all
// of them served.
func newPartitioned(t testing.TB, size int) *partitioned {
	t.Helper()
	p := &partitioned{
		t: t, members: cast{}, witnesses: map[view.MemberID]*witnessed{}, heard: map[[2]view.MemberID]time.Time{},
	}
	p.order = membership.PairedIDs(0, size)
	var named []view.Witness
	var founders []membership.Founder
	for _, id := range p.order {
		f, w := p.waits(id, size)
		founders, named = append(founders, f), append(named, w)
	}
	v, err := membership.Found("c", founders)
	if err != nil {
		t.Fatal(err)
	}
	p.placement = membership.Placement{Partitions: size, Faults: (size - 1) / 2}
	if p.view, err = membership.Place(v, named, p.placement); err != nil {
		t.Fatal(err)
	}
	p.tell()
	p.settle()
	return p
}

// waits starts a member and the witness beside it on empty disks, which they name.
func (p *partitioned) waits(id view.MemberID, shards int) (membership.Founder, view.Witness) {
	p.t.Helper()
	c := waiting(p.t, id, storage.Sync)
	c.Protocol, c.Shards, c.Distances = "CURP", shards, nil
	p.members[id] = run(p.t, c)
	other := membership.WitnessOf(id)
	started := p.witness(witness.Config{
		Cluster: "c", Self: uint32(other), Directory: filepath.Join(p.t.TempDir(), fmt.Sprint(other)),
		Durability: witness.Sync, Listen: witness.Listen{Peer: free(p.t)},
	})
	p.witnesses[other] = started
	w := view.Witness{ID: other, Site: c.Site, Address: started.config.Listen.Peer, Beside: id}
	await(p.t, "a witness names its disk", func() bool {
		report, err := started.conn.Report(p.t.Context())
		w.Disk = report.Disk
		return err == nil
	})
	return p.members[id].founder(p.t), w
}

// tell gives the view to all members that run.
func (p *partitioned) tell() {
	p.t.Helper()
	for _, id := range p.order {
		if r := p.members[id]; r.up() {
			if err := r.configure(p.t, p.view); err != nil {
				p.t.Fatalf("member %d: %v", id, err)
			}
		}
	}
}

func (r *running) up() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// snapshot asks everybody.
func (p *partitioned) snapshot() membership.Snapshot {
	p.t.Helper()
	s := membership.Snapshot{View: p.view, Placement: p.placement, Named: p.named}
	for _, id := range p.order {
		if !p.members[id].up() {
			continue
		}
		got := p.members[id].status(p.t)
		report := membership.MemberReport{Member: id, Disk: got.Disk, Digest: got.Digest}
		for _, peer := range append(got.Peers, got.Witnesses...) {
			if p.hears(id, peer) {
				report.Hears = append(report.Hears, view.MemberID(peer.Member))
			}
		}
		for _, part := range got.Partitions {
			told := membership.Part{Term: part.Term, Lost: part.Lost, Recovered: part.Recovered,
				Restarted: part.Restarted, Copying: part.Copying,
				WholeTerm: part.WholeTerm, NotedTerm: part.NotedTerm, Length: part.Length}
			for _, learner := range part.CaughtUp {
				told.CaughtUp = append(told.CaughtUp, view.MemberID(learner))
			}
			report.Partitions = append(report.Partitions, told)
		}
		s.Members = append(s.Members, report)
	}
	for _, w := range p.witnesses {
		if w.over() {
			continue
		}
		ctx, cancel := context.WithTimeout(p.t.Context(), patience)
		if report, err := w.conn.Report(ctx); err == nil {
			s.Witnesses = append(s.Witnesses, report)
		}
		cancel()
	}
	return s
}

// manage does once what a manager does, and reports whether there was anything to do or to wait for.
func (p *partitioned) manage() (busy bool) {
	p.t.Helper()
	s := p.snapshot()
	begin, end := membership.Lives(s)
	for _, l := range begin {
		if p.witnesses[l.Witness].over() {
			continue
		}
		w, _ := p.view.Witness(l.Witness)
		if err := p.witnesses[l.Witness].conn.Start(p.t.Context(), l.Partition, l.Term, w.Disk); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, l := range end {
		if p.witnesses[l.Witness].over() {
			continue
		}
		if err := p.witnesses[l.Witness].conn.End(p.t.Context(), l.Partition, l.Term); err != nil {
			p.t.Fatal(err)
		}
	}
	decision := membership.Decide(s)
	if decision.Changed() {
		p.t.Logf("epoch %d: %s", decision.Next.Epoch, strings.Join(decision.Lines(), "; "))
		p.view = decision.Next
		p.tell()
	}
	return decision.Changed() || len(begin)+len(end)+len(decision.Waits) > 0
}

// settle manages until every partition is served.
func (p *partitioned) settle() {
	p.t.Helper()
	await(p.t, "every partition is served", func() bool {
		p.manage()
		return p.served()
	})
}

// served reports whether every member reaches the masters, and these serve in the view and have recovered.
func (p *partitioned) served() bool {
	for _, part := range p.view.Partitions {
		if len(part.Formers) > 0 || !p.members[part.Master].up() {
			return false
		}
	}
	for _, id := range ids(p.view) {
		if r := p.members[id]; r.up() {
			if code, _ := r.probe("/quorumz"); code != http.StatusOK {
				return false
			}
		}
	}
	return true
}

// kill ends a member as a crash would: nothing that it says arrives any more, and its disk is as it was while it ran.
func (p *partitioned) kill(id view.MemberID) {
	p.t.Helper()
	r := p.members[id]
	for _, other := range append(ids(p.view), witnesses(p.view)...) {
		if other != id {
			p.cut(id, other, true)
		}
	}
	image := r.config.Directory + ".image"
	if err := os.CopyFS(image, os.DirFS(r.config.Directory)); err != nil {
		p.t.Fatal(err)
	}
	r.stop()
	if <-r.ended; r.err != nil {
		p.t.Fatal(r.err)
	}
	if err := errors.Join(os.RemoveAll(r.config.Directory), os.Rename(image, r.config.Directory)); err != nil {
		p.t.Fatal(err)
	}
}

// cut cuts or mends a member's side of a link.
func (p *partitioned) cut(id, other view.MemberID, blocked bool) {
	p.t.Helper()
	_, err := p.members[id].admin.SetLink(p.t.Context(),
		&adminv1.SetLinkRequest{Cluster: "c", Member: uint32(id), Peer: uint32(other), Blocked: blocked})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *partitioned) do(id view.MemberID, op register.Operation) register.Result {
	p.t.Helper()
	done := make(chan register.Result, 1)
	p.members[id].node.Submit(op, patience, func(r register.Result) { done <- r })
	return <-done
}

func (p *partitioned) must(id view.MemberID, op register.Operation) register.Result {
	p.t.Helper()
	r := p.do(id, op)
	if r.Status != register.OK {
		p.t.Fatalf("member %d: %s of %s: %s: %s", id, op.Kind, op.Key, r.Status, r.Message)
	}
	return r
}

func (p *partitioned) write(id view.MemberID, key, value string) register.Result {
	p.t.Helper()
	return p.must(id, register.Operation{Kind: register.Write, Key: key, Value: register.Value(value)})
}

func (p *partitioned) expect(id view.MemberID, key, value string) register.Result {
	p.t.Helper()
	r := p.must(id, register.Operation{Kind: register.Read, Key: key})
	if string(r.Value) != value {
		p.t.Fatalf("member %d reads %q of %s, want %q", id, r.Value, key, value)
	}
	return r
}

// keys are some of a partition.
func (p *partitioned) keys(partition, count int) (keys []string) {
	for i := 0; len(keys) < count; i++ {
		if key := fmt.Sprint("key-", i); runtime.Shard(key, len(p.view.Partitions)) == partition {
			keys = append(keys, key)
		}
	}
	return keys
}

var _ = [1]struct{}{}[transport.WitnessWireVersion-server.WireVersion] // who asks and who answers speak of the same
