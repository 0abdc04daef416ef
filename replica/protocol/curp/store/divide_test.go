package store_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// divided is a view in which partition 1 was split off partition 0 in term 4.
func divided() view.View {
	v := view.View{Cluster: "test", Epoch: 4, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}, Founded: 1}
	p := view.Partition{Term: 4, Master: 1, Backups: []view.MemberID{2}}
	child := p
	child.Split = 4
	v.Partitions = []view.Partition{p, child}
	return v
}

// part sets what a member's disk says of its part.
func part(d protocoltest.Disk, own *peerv1.PartitionRecord) {
	raw, err := own.MarshalVT()
	if err != nil {
		panic(err)
	}
	d["P"] = raw
}

func partOf(t *testing.T, d protocoltest.Disk) *peerv1.PartitionRecord {
	t.Helper()
	own := &peerv1.PartitionRecord{}
	if err := own.UnmarshalVT(d["P"]); err != nil {
		t.Fatal(err)
	}
	return own
}

// founded is a disk with a part in terms up to 3, of several pages.
func founded() protocoltest.Disk {
	d := protocoltest.Disk{
		"L\x00\x01": []byte("an entry"), "d12": []byte("an answer"), "h": []byte("the horizon"),
		"s1": []byte("a session"),
	}
	for i := range 40 {
		d[fmt.Sprint("rkey-", i)] = []byte(fmt.Sprint(i, strings.Repeat("x", 100<<10)))
	}
	part(d, &peerv1.PartitionRecord{Term: 3, Recovered: 3, Applied: 7})
	return d
}

var errStopped = errors.New("the machine stops")

// divide is store.Divide on disks that fail after some batches; fewer than none stands for never.
func divide(disks []protocoltest.Disk, after int) (given int, err error) {
	return store.Divide(divided(), protocol.Disks{
		Journal: func(i int) *protocol.Journal { return protocol.NewJournal(disks[i]) },
		Persist: func(i int, j *protocol.Journal) error {
			b := j.Take()
			if after == 0 {
				return errStopped
			}
			after--
			disks[i].Write(b)
			j.Persisted(b.Sequence)
			return nil
		},
		Hash: register.Hash,
	})
}

func isChilds(key string) bool { return divided().Shard(register.Hash([]byte(key[1:]))) == 1 }

// The new partition gets everything but the registers that stay, whenever the machine stops, and nothing goes from the
// other one.
func TestDivideGives(t *testing.T) {
	want := protocoltest.Disk{}
	registers := 0
	for key, value := range founded() {
		if key[0] != 'r' || isChilds(key) {
			want[key] = value
		}
		if key[0] == 'r' && isChilds(key) {
			registers++
		}
	}
	part(want, &peerv1.PartitionRecord{Term: 3, Recovered: 3, Applied: 7, Shards: 2})
	for stops := 0; ; stops++ {
		disks := []protocoltest.Disk{founded(), {"rof a split that was forgotten": nil}}
		_, err := divide(disks, stops)
		if _, known := disks[1]["P"]; known != (err == nil) {
			t.Fatalf("after %d batches, %v: the new partition's part is known: %v", stops, err, known)
		}
		if given, again := divide(disks, -1); again != nil || given != registers {
			t.Fatalf("%d registers were given, want %d: %v", given, registers, again)
		}
		if !reflect.DeepEqual(disks[1], want) || !reflect.DeepEqual(disks[0], founded()) {
			t.Fatalf("after %d batches: the disks have %d and %d records, want %d and %d", stops, len(disks[0]),
				len(disks[1]), len(founded()), len(want))
		}
		if err == nil {
			if stops < 4 {
				t.Errorf("it took %d batches: this proves little", stops)
			}
			return
		}
	}
}

// What was given goes from the other partition once the member has taken part in the term of the split, or a later one.
func TestDivideDrops(t *testing.T) {
	for stops := 0; ; stops++ {
		disks := []protocoltest.Disk{founded(), {}}
		if _, err := divide(disks, -1); err != nil {
			t.Fatal(err)
		}
		part(disks[0], &peerv1.PartitionRecord{Term: 4})
		part(disks[1], &peerv1.PartitionRecord{Term: 5, Shards: 2})
		child := maps.Clone(disks[1])
		_, err := divide(disks, stops)
		if given, again := divide(disks, -1); given != 0 || again != nil {
			t.Fatalf("%d registers were given again: %v", given, again)
		}
		for key := range founded() {
			if _, left := disks[0][key]; left == (key[0] == 'r' && isChilds(key)) {
				t.Fatalf("after %d batches: %q is left: %v", stops, key, left)
			}
		}
		if own := partOf(t, disks[0]); own.Term != 4 || own.Shards != 2 || !reflect.DeepEqual(disks[1], child) {
			t.Fatalf("after %d batches: %v", stops, own)
		}
		if err == nil {
			return
		}
	}
}

// Who has nothing on its disk is given nothing, nor is who has taken part in the new partition.
func TestDivideGivesNothing(t *testing.T) {
	entered := protocoltest.Disk{}
	part(entered, &peerv1.PartitionRecord{Term: 4, Shards: 2})
	for name, disks := range map[string][]protocoltest.Disk{
		"an empty disk":      {{}, {}},
		"one that took part": {founded(), entered},
	} {
		before := len(disks[1])
		if given, err := divide(disks, -1); given != 0 || err != nil || len(disks[1]) != before {
			t.Errorf("%s: %d registers, %d records: %v", name, given, len(disks[1]), err)
		}
	}
	if _, err := divide([]protocoltest.Disk{{"P": []byte("no record")}, {}}, -1); err == nil ||
		!strings.Contains(err.Error(), "split partition 1 off 0") {
		t.Errorf("of a damaged disk: %v", err)
	}
}

// Of a state that is being copied nothing is given: its member begins as one that has no part yet, whatever an
// earlier try left, and keeps what it knows of its disk.
func TestDivideGivesNoCopy(t *testing.T) {
	for stops := 0; ; stops++ {
		forgotten := protocoltest.Disk{
			"C": []byte("a count"), "K": []byte("positions"), "L\x00\x01": []byte("an entry"),
			"rold": []byte("a register"),
		}
		part(forgotten, &peerv1.PartitionRecord{Term: 3, Shards: 2})
		disks := []protocoltest.Disk{founded(), forgotten}
		part(disks[0], &peerv1.PartitionRecord{Term: 3, Copying: true, Cursor: []byte("rkey-3")})
		before := maps.Clone(disks[0])
		_, err := divide(disks, stops)
		if given, again := divide(disks, -1); given != 0 || again != nil {
			t.Fatalf("%d registers were given: %v", given, again)
		}
		want := (protocoltest.Disk{"C": []byte("a count"), "K": []byte("positions")})
		if !reflect.DeepEqual(disks[1], want) || !reflect.DeepEqual(disks[0], before) {
			t.Fatalf("after %d batches, the new partition has %q, and the other one %d records, want %d", stops,
				disks[1], len(disks[0]), len(before))
		}
		if err == nil {
			return
		}
	}
}
