package bounds_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/register"
)

// far is above the bounds of disks.
const far = 2*register.MaxNumber + 1

// ofMembers are the records of the member itself, which are beside those of every protocol but CURP.
var ofMembers = map[string]proto.Message{
	"m": &peerv1.MemberRecord{}, "mk": &peerv1.PositionRecord{}, "mt": &peerv1.TransferRecord{},
}

// recordsOf are the records of a protocol, by how their keys begin. Answers of CURP have the number of a session in
// their keys.
func recordsOf(name string) map[string]proto.Message {
	entry, err := catalog.Find(name)
	if err != nil {
		panic(err)
	}
	all := map[string]proto.Message{}
	for _, r := range entry.Records {
		switch {
		case r.Message == nil:
		case entry.Partitioned != nil && r.Prefix == "d":
			all["d\x00\x00\x00\x00\x00\x00\x00\x07"] = r.Message
		default:
			all[r.Prefix] = r.Message
		}
	}
	return all
}

// keyOf is the key of the last record that begins so; the beginning itself if there is none.
func keyOf(d map[string][]byte, prefix string) string {
	var keys []string
	for key := range d {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || strings.HasPrefix(prefix, "m") {
		return prefix
	}
	return slices.Max(keys)
}

// lost starts a member on a disk of which one record is another, and uses it.
func lost(t *testing.T, name string, others *world, key string, raw []byte) error {
	w := found(t, name)
	for i := range w.members {
		w.disks[i], w.boots[i] = copyOf(others.disks[i]), others.boots[i]
	}
	w.number = others.number - 1 // an rmw is asked for again
	w.disks[0][key] = raw
	for _, i := range []int{1, 2, 0} {
		w.start(i, false)
	}
	w.pass(8)
	w.use(0)
	w.pass(40) // in which a member has to lead
	w.use(0, 1, 2)
	for i, fault := range w.faults[1:] {
		if fault != nil {
			t.Fatalf("%s: member %d, whose disk is whole: %v", name, i+2, fault)
		}
	}
	return w.faults[0]
}

// A number above its bound on a disk, in whatever record, is found once the record is used, and the member stops with
// the reason for which the disk is taken for lost.
func TestADiskAboveTheBoundIsLost(t *testing.T) {
	for _, name := range catalog.Names() {
		t.Run(name, func(t *testing.T) {
			whole := found(t, name)
			whole.use(0, 1, 2, 0)
			all := map[string]proto.Message{}
			for prefix, record := range recordsOf(name) {
				all[prefix] = record
			}
			if name != "curp" {
				for prefix, record := range ofMembers {
					all[prefix] = record
				}
			}
			if len(all) == 0 {
				t.Fatal("nothing is known of its records")
			}
			for prefix, record := range all {
				key := keyOf(whole.disks[0], prefix)
				if prefix == "i" { // an instance in progress: none is left
					key = firstSlot
				}
				for _, v := range bounds.Variants(record.ProtoReflect(), far, map[protoreflect.FullName]bool{}) {
					broken := v.Message.Interface()
					if m, is := broken.(*peerv1.Message); is {
						if m.Instance == nil {
							continue // what is no instance is no record
						}
						m.Key = []byte("k")
						if m.Instance.Id == nil {
							m.Instance.Id = &peerv1.InstanceID{Writer: 1 << 48, Number: 1}
						}
					}
					raw, err := proto.Marshal(broken)
					if err != nil {
						t.Fatal(err)
					}
					if fault := lost(t, name, whole, key, raw); !errors.Is(fault, register.ErrNumber) {
						t.Errorf("%q: %s is believed: %v", key, v.Name, fault)
					}
				}
			}
			for key, raw := range others(name) {
				if fault := lost(t, name, whole, key, raw); !errors.Is(fault, register.ErrNumber) {
					t.Errorf("%q is believed: %v", key, fault)
				}
			}
		})
	}
}

// firstSlot is the key of the record of an instance.
const firstSlot = "i\x00\x00\x00\x01"

// others are records of formats of their own: counts of batches, and entries of the library.
func others(name string) map[string][]byte {
	count := binary.AppendUvarint(nil, far)
	if name == "curp" {
		return map[string][]byte{"C": count}
	}
	all := map[string][]byte{"mc": count}
	if name == "raft" || name == "curpraft" {
		n, one := uint64(far), uint64(1)
		raw, err := proto.Marshal(&raftpb.Entry{Term: &n, Index: &one})
		if err != nil {
			panic(err)
		}
		all["l"+string(binary.BigEndian.AppendUint64(nil, 1))] = raw
	}
	return all
}
