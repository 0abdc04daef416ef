package check

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// Same judges that the states of keys are the same on all disks whose logs are applied up to the same entry.
func (l *Logs) Same(all []*Holder) error {
	kept := func(_ *Holder, key string) bool { return key[0] == raftState }
	return same(all, kept, func(h *Holder) (uint64, bool) {
		var applied peerv1.RaftApplied
		return applied.Index, l.group(h.Shard) != nil && applied.UnmarshalVT(h.Records[raftApplied]) == nil &&
			applied.Index > 0
	})
}

// SameParts judges that of partitions: registers, sessions, answers, and what was forgotten of them. What lives in
// another partition by now may not be dropped everywhere yet; shard tells.
func SameParts(all []*Holder, shard func(key []byte) int) error {
	kept := func(h *Holder, key string) bool {
		return key[0] == curpSession || key[0] == curpDone || key == curpHorizon || key[0] == 'r' &&
			shard([]byte(key[1:])) == h.Shard
	}
	return same(all, kept, func(h *Holder) (uint64, bool) {
		own := h.curpOwn()
		return own.GetApplied(), own != nil && !own.Copying && own.Through <= own.Applied && own.Applied > 0
	})
}

// same judges that records are the same on all disks that are as far.
func same(all []*Holder, kept func(h *Holder, key string) bool, far func(*Holder) (index uint64, counts bool)) error {
	type moment struct {
		shard int
		index uint64
	}
	first := map[moment]*Holder{} // never ranged over
	for _, h := range all {
		index, counts := far(h)
		other, known := first[moment{h.Shard, index}]
		switch {
		case !counts:
		case !known:
			first[moment{h.Shard, index}] = h
		default:
			if key := h.differs(other, kept); key != "" {
				return fmt.Errorf("after entry %d of shard %d, the record %q of members %d and %d is another one",
					index, h.Shard, key, other.Member, h.Member)
			}
		}
	}
	return nil
}

// differs is the first record that one of two disks has and the other has not, or has another one of.
func (h *Holder) differs(other *Holder, kept func(h *Holder, key string) bool) string {
	for _, both := range [][2]*Holder{{h, other}, {other, h}} {
		for _, key := range slices.Sorted(maps.Keys(both[0].Records)) {
			if len(key) > 0 && kept(h, key) && !bytes.Equal(both[0].Records[key], both[1].Records[key]) {
				return key
			}
		}
	}
	return ""
}
