package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/field"
)

// growing is a number of a record that no disk ever has less of than it had, and what it is.
type growing struct {
	number int
	is     string
}

// Numbers that only grow, by the key of their record: of members and of Raft, and of partitions.
var (
	growsInMembers = map[string][]growing{
		"m":         {{1, "the number of its disk"}, {2, "that it votes"}, {5, "the epoch of its view"}},
		raftHard:    {{hardTerm, "the term"}},
		raftStart:   {{1, "the entry that the log begins behind"}},
		raftApplied: {{appliedIndex, "the entry that the state is after"}, {5, "the term that recovered last"}},
	}
	growsInPartitions = map[string][]growing{
		curpOwn: {
			{1, "the term"}, {partitionServed, "the term that it has served in"}, {12, "the term that it was born in"},
			{14, "the term that it answered too soon in"}, {17, "the term that it has noted the whole of"},
			{18, "the number of shards"},
		},
	}
)

// Grows judges what a batch of records makes of numbers that a disk never has less of than it had.
func (h *Holder) Grows(partitioned bool, b *protocol.Batch) error {
	records := growsInMembers
	if partitioned {
		records = growsInPartitions
	}
	for _, m := range b.Mutations {
		before := h.Records[string(m.Key)]
		if partitioned && before != nil && m.Value == nil && (m.Key[0] == curpCount || m.Key[0] == curpHeard) {
			return fmt.Errorf("partition %d: it forgets how far disks are", h.Shard)
		}
		if before == nil || m.Value == nil {
			continue
		}
		for _, g := range records[string(m.Key)] {
			if was, is := field.Number(before, g.number), field.Number(m.Value, g.number); is < was {
				return fmt.Errorf("shard %d: its disk has %s as %d, and had %d", h.Shard, g.is, is, was)
			}
		}
		if string(m.Key) == raftApplied && !partitioned {
			if author := recalled(before, m.Value); author != 0 {
				return fmt.Errorf("shard %d: commands of author %x were over, and are not any more", h.Shard, author)
			}
		}
	}
	if partitioned {
		return h.ownRecord(b)
	}
	return nil
}

// ownRecord judges what a batch makes of a partition's own record: who has dropped all to copy another member's state
// has nothing of it, a state goes no further than what is synced, and a master waits for no leases that it granted as a
// backup.
func (h *Holder) ownRecord(b *protocol.Batch) error {
	raw, is := written(b, curpOwn)
	if !is || h.Records[curpOwn] == nil {
		return nil
	}
	var before, now peerv1.PartitionRecord
	if err := errors.Join(before.UnmarshalVT(h.Records[curpOwn]), now.UnmarshalVT(raw)); err != nil {
		return err
	}
	switch {
	case now.Copying && !before.Copying && max(now.WholeTerm, now.WholeIndex, now.Commit) > 0:
		return fmt.Errorf("partition %d: it has dropped all to begin a copy, and says to have entry %d, and what was "+
			"recovered in term %d up to entry %d", h.Shard, now.Commit, now.WholeTerm, now.WholeIndex)
	case now.Applied != before.Applied && now.Applied > max(now.Commit, before.Through):
		return fmt.Errorf("partition %d: its state goes up to entry %d, and it knows of those up to %d that they are "+
			"synced", h.Shard, now.Applied, now.Commit)
	case now.Recovered > before.Recovered && now.Granted:
		return fmt.Errorf("partition %d: it serves as the master of term %d, and takes itself for a backup that may "+
			"have granted leases", h.Shard, now.Recovered)
	}
	return h.staysWhole(b, &before, &now)
}

// staysWhole judges that a member which has all that was to be recovered in a term has it for as long as its log has
// the last entry of that, unless it drops all that it has.
func (h *Holder) staysWhole(b *protocol.Batch, before, now *peerv1.PartitionRecord) error {
	if now.WholeTerm >= before.WholeTerm || now.Copying {
		return nil
	}
	if h.Shard < len(h.View.Partitions) && h.View.Partitions[h.Shard].Empty {
		return nil
	}
	if _, is := written(b, string(binary.BigEndian.AppendUint64([]byte{curpEntry}, before.WholeIndex))); is {
		return nil
	}
	return fmt.Errorf("partition %d: it had all that was recovered in term %d, up to entry %d, which it has not "+
		"dropped, and knows of term %d only", h.Shard, before.WholeTerm, before.WholeIndex, now.WholeTerm)
}

// written is what a batch makes of a record; nil with true: it deletes the record.
func written(b *protocol.Batch, key string) (value []byte, is bool) {
	for _, m := range slices.Backward(b.Mutations) {
		if string(m.Key) == key {
			return m.Value, true
		}
	}
	return nil, false
}

// after is what the disk has of a record with a batch; nil: nothing.
func (h *Holder) after(b *protocol.Batch, key string) []byte {
	if value, is := written(b, key); is {
		return value
	}
	return h.Records[key]
}

// recalled is an author of whom fewer commands are over in one RaftApplied than in the one before it, or 0.
func recalled(before, now []byte) (author uint64) {
	over := map[uint64]uint64{} // by author
	each := func(raw []byte, visit func(author, over uint64)) {
		_ = field.Visit(raw, func(which int, _ uint64, part []byte) {
			if which == appliedAuthors {
				visit(field.Number(part, authorName), field.Number(part, authorOver))
			}
		})
	}
	each(before, func(author, first uint64) { over[author] = first })
	each(now, func(of, first uint64) {
		if first < over[of] {
			author = of
		}
	})
	return author
}

// copies judges a page of a member's state: its disk has that state, or a later one.
func (h *Holder) copies(raw []byte) error {
	var page peerv1.RaftPage
	if err := page.UnmarshalVT(raw); err != nil {
		return err
	}
	if is := field.Number(h.Records[raftApplied], appliedIndex); page.Applied.GetIndex() > is {
		return fmt.Errorf("has its state after entry %d copied, and that on its disk is after entry %d",
			page.Applied.Index, is)
	}
	for _, r := range page.Records {
		var told, is peerv1.KeyState
		here := h.Records[string(raftState)+string(r.Key)]
		if err := errors.Join(told.UnmarshalVT(r.State), is.UnmarshalVT(here)); err != nil {
			return err
		}
		if told.GetPrevious().GetTimestamp() > is.GetPrevious().GetTimestamp() {
			return fmt.Errorf("has a state of key %q copied that entry %d made, and that on its disk is of entry %d",
				r.Key, told.GetPrevious().GetTimestamp(), is.GetPrevious().GetTimestamp())
		}
	}
	return nil
}
