package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
)

// The records of a member's disk for a partition that are of registers, and those that are of the disk itself.
const (
	curpRegister = 'r'
	curpCount    = 'C'
	curpHeard    = 'K'
)

// Forgets judges what a batch of records makes a member's disk forget of the sessions of clients: the disk knows then
// that sessions which were last seen so late may be forgotten, and does not forget that again. A disk that copies the
// state of another one, or has copied it and lacks the log behind it, has the state of no moment.
func (h *Holder) Forgets(b *protocol.Batch) error {
	drops := func(m protocol.Mutation) bool { return len(m.Key) == 9 && m.Key[0] == curpSession && m.Value == nil }
	if !slices.ContainsFunc(b.Mutations, func(m protocol.Mutation) bool {
		return drops(m) || string(m.Key) == curpHorizon
	}) {
		return nil
	}
	var before, own peerv1.PartitionRecord
	var known, horizon peerv1.SessionHorizon
	for _, r := range []struct {
		of  interface{ UnmarshalVT([]byte) error }
		raw []byte
	}{
		{&before, h.Records[curpOwn]}, {&own, h.after(b, curpOwn)},
		{&known, h.Records[curpHorizon]}, {&horizon, h.after(b, curpHorizon)},
	} {
		if err := r.of.UnmarshalVT(r.raw); err != nil {
			return err
		}
	}
	if before.Copying || own.Copying || before.Through != 0 || own.Through != 0 || own.Applied < before.Applied {
		return nil
	}
	upTo := seen{horizon.SeenAt, horizon.Session}
	if upTo.compare(seen{known.SeenAt, known.Session}) < 0 {
		return fmt.Errorf("partition %d: it had forgotten a session that was seen last at %d, and knows of %d only",
			h.Shard, known.SeenAt, horizon.SeenAt)
	}
	for _, m := range b.Mutations {
		var session peerv1.PartitionSession
		if !drops(m) || h.after(b, string(m.Key)) != nil ||
			session.UnmarshalVT(h.Records[string(m.Key)]) != nil || session.SeenAt == 0 {
			continue
		}
		if id := binary.BigEndian.Uint64(m.Key[1:]); upTo.compare(seen{session.SeenAt, id}) < 0 {
			return fmt.Errorf("partition %d: it forgets session %d, last seen at %d, and says to have forgotten what was "+
				"seen up to %d", h.Shard, id, session.SeenAt, horizon.SeenAt)
		}
	}
	return nil
}

// whole judges a state that a member says to be that after its log, up to an entry: nothing in the state comes from
// behind the log's end. The message may have waited for the disk while the member began to copy another state, whose
// log begins behind that entry.
func (h *Holder) whole(said uint64) error {
	if own := h.curpOwn(); (own.GetCopying() || own.GetThrough() != 0) && said < own.GetStart() {
		return nil
	}
	last := h.curpLast()
	ahead, of := "", uint64(0)
	for key, raw := range h.Records { // order is irrelevant: the first of all keys is told
		made := uint64(0)
		switch key[0] {
		case curpRegister:
			var r peerv1.RegisterRecord
			if r.UnmarshalVT(raw) == nil {
				made = r.Timestamp
			}
		case curpSession:
			var s peerv1.PartitionSession
			if s.UnmarshalVT(raw) == nil {
				made = s.UsedAt
			}
		}
		if made > last && (ahead == "" || key < ahead) {
			ahead, of = key, made
		}
	}
	if ahead != "" {
		return fmt.Errorf("it says to have the whole state, and its disk has the record %q as entry %d made it, and the "+
			"log up to %d", ahead, of, last)
	}
	return nil
}

// Kept judges that a member which has taken part in a partition since that was split off in a term keeps what its disk
// had of it before the member started, but for registers that it gives to others in turn.
func Kept(child *Holder, before map[string][]byte, term uint64) error {
	had := Holder{Records: before}
	own, now := had.curpOwn(), child.curpOwn()
	if own.GetTerm() < term {
		return nil
	}
	now.Shards = own.GetShards()
	stays := func(key string) bool { return key != curpOwn && key[0] != curpRegister }
	kept := proto.Equal(own, now)
	for key, raw := range before { // order is irrelevant: one of them is enough
		kept = kept && (!stays(key) || bytes.Equal(raw, child.Records[key]))
	}
	if !kept {
		return fmt.Errorf("member %d: partition %d, in whose term %d it has taken part since term %d split it off, "+
			"begins anew: %v", child.Member, child.Shard, own.GetTerm(), term, now)
	}
	return nil
}

// Split judges what a partition begins with at a member that has no part in it since it was split off: all that the
// other one has there, of its own keys. Gives says which these are. Term is that of the split.
func Split(parent, child *Holder, term uint64, gives func(key []byte) bool) error {
	own, begins := parent.curpOwn(), child.curpOwn()
	if parent.Records[curpOwn] == nil || own.GetTerm() >= term || begins.GetTerm() >= term {
		return nil // it has a part there by now, or never had one
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("member %d: partition %d, which is split off %d in term %d, begins %w", parent.Member,
			child.Shard, parent.Shard, term, fmt.Errorf(format, args...))
	}
	if own.Copying {
		if child.Records[curpOwn] != nil {
			return fail("with a part, of which the other one is still copied")
		}
		return nil
	}
	begins.Shards = own.Shards
	if child.Records[curpOwn] == nil || !proto.Equal(begins, own) {
		return fail("with %v, and the other one is at %v", begins, own)
	}
	ofState := func(key string) bool { return key != curpOwn && key[0] != curpCount && key[0] != curpHeard }
	given := func(key string) bool { return ofState(key) && (key[0] != curpRegister || gives([]byte(key[1:]))) }
	for _, key := range slices.Sorted(maps.Keys(parent.Records)) {
		if given(key) && !bytes.Equal(parent.Records[key], child.Records[key]) {
			return fail("with another record %q than the other one has, or without it", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(child.Records)) {
		if _, has := parent.Records[key]; ofState(key) && (!has || !given(key)) {
			return fail("with the record %q, which the other one keeps, or does not have", key)
		}
	}
	return nil
}

// Dropped judges that a partition which notes that it dropped what it had given to others has none of that any more.
func Dropped(parent *Holder, before map[string][]byte, shards uint32, gives func(key []byte) bool) error {
	had := Holder{Records: before}
	if had.curpOwn().GetShards() >= shards || parent.curpOwn().GetShards() < shards {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(parent.Records)) {
		if key[0] == curpRegister && gives([]byte(key[1:])) {
			return fmt.Errorf("member %d, partition %d: it notes to have dropped what it has given, and has the record %q",
				parent.Member, parent.Shard, key)
		}
	}
	return nil
}
