package runtime

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// put writes a record to the disk of a member that was stopped, as the member would.
func (c *cluster) put(i int, key string, record interface{ MarshalVT() ([]byte, error) }) {
	c.t.Helper()
	raw, err := record.MarshalVT()
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := storage.Open(storage.Options{
		Directory: c.dirs[i], Durability: storage.Sync,
		Identity: storage.Identity{Cluster: c.view.Cluster, Member: c.view.Members[i].ID, Protocol: c.base.Protocol, Shards: 1},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	s.Commit(0, protocol.Batch{Sequence: 1, Mutations: []protocol.Mutation{{Key: []byte(key), Value: raw}}}, func(uint64) {})
	if err := s.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// A disk that tells of a number which nobody can have counted up to is lost, whether that is found when the member
// starts or later: its process ends, what is left is set aside, and the next process joins on an empty disk.
func TestADiskAboveTheBoundIsCondemned(t *testing.T) {
	const far = math.MaxUint64
	for _, test := range []struct {
		protocol, key string
		record        interface{ MarshalVT() ([]byte, error) }
	}{
		{"abd", "rk", &peerv1.RegisterRecord{Timestamp: far, Present: true}}, // when it is read
		{"gryff", "m", &peerv1.MemberRecord{Incarnation: 1, Voter: true, Epoch: far}},
		{"epaxos", "mk", &peerv1.PositionRecord{Positions: []*peerv1.Position{{Member: 2, Batches: far}}}},
		{"raft", "h", &peerv1.RaftHard{Term: far}},
		{"curp", "P", &peerv1.PartitionRecord{Term: 1, Applied: far}},
		{"curp", "L\x00\x00\x00\x00\x00\x00\x00\x01", &peerv1.LogEntry{Term: 1, Index: far}},
	} {
		t.Run(fmt.Sprintf("%s/%q", test.protocol, test.key[:1]), func(t *testing.T) {
			c := newCluster(t, 3, Options{Protocol: test.protocol, Retry: 50 * time.Millisecond}, storage.Options{Durability: storage.Sync})
			c.write(1, "k", "v")
			c.stop(0)
			c.put(0, test.key, test.record)
			err := c.start(0, listen(t, c.view.Members[0].Address), false)
			if err == nil {
				failed := c.replicas[0]
				failed.Submit(register.Operation{Kind: register.Read, Key: "k"}, patience, func(register.Result) {})
				eventually(t, "it finds out", func() bool { return failed.Err() != nil })
				err = failed.Err()
				_ = failed.Close()
			}
			if !errors.Is(err, register.ErrNumber) {
				t.Fatalf("it stopped: %v", err)
			}
			// Its directory stays locked while this process lives.
			next := filepath.Join(t.TempDir(), "next")
			copyTo(t, c.dirs[0], next)
			c.dirs[0] = next
			c.restart(0)
			r := c.replicas[0]
			loss := r.store.Loss()
			if loss == nil {
				t.Fatal("the disk knows of no loss")
			}
			if _, err := os.Stat(filepath.Join(next, "damaged", "db")); err != nil {
				t.Errorf("what was left is not kept: %v", err)
			}
			if test.protocol == "curp" {
				if part := r.Partitions()[0]; !part.Lost {
					t.Errorf("its part is %+v", part)
				}
				return
			}
			eventually(t, "it votes again", r.Votes)
			if got := r.Status().Shards[0].Incarnation; got != 2 {
				t.Errorf("it is disk number %d", got)
			}
			c.expect(0, "k", "v")
		})
	}
}

// However much a peer sends that is not believed, to however many shards, the log has a line a minute of it.
func TestTheLogTellsOfAPeerOnceAMinute(t *testing.T) {
	synctest.Test(t, testTheLogOfAPeer)
}

func testTheLogOfAPeer(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	log, r, start := zap.New(core), &refusals{}, time.Now()
	why := fmt.Errorf("message: %w", register.ErrNumber)
	told := func(at time.Duration, from ...view.MemberID) int {
		var all []protocol.Refused
		for _, id := range from {
			all = append(all, protocol.Refused{From: id, Why: why})
		}
		time.Sleep(time.Until(start.Add(at)))
		for shard := range 4 {
			r.log(log, shard, all)
		}
		return len(lines.TakeAll())
	}
	for _, step := range []struct {
		at   time.Duration
		from []view.MemberID
		want int
	}{
		{0, []view.MemberID{2, 2, 2}, 1},
		{time.Second, []view.MemberID{2, 3, 2}, 1}, // of 3
		{time.Minute - 1, []view.MemberID{2, 3}, 0},
		{time.Minute, []view.MemberID{2, 3}, 1}, // of 2
		{time.Minute + time.Second, []view.MemberID{2, 3}, 1},
		{time.Hour, nil, 0},
	} {
		if got := told(step.at, step.from...); got != step.want {
			t.Errorf("after %v: %d lines, want %d", step.at, got, step.want)
		}
	}
	time.Sleep(time.Hour)
	r.log(log, 7, []protocol.Refused{{From: 2, Why: why}})
	line := lines.TakeAll()[0]
	if line.Level != zap.WarnLevel || line.ContextMap()["peer"] != uint32(2) || line.ContextMap()["error"] != why.Error() {
		t.Errorf("the line is %v %v", line.Entry, line.ContextMap())
	}
}
