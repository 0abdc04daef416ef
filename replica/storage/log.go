package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/georegister/georegister/replica/durable"
)

// The database takes a log's first bad byte for its end, as a crash leaves it, and goes on without what follows. That
// is right for a commit that was being written: nobody was told of it. It is wrong for one that was durable. The
// committer begins a commit when the one before is durable, and numbers them, so the logs themselves tell more: what
// must be there, and whether anything follows the bad byte.

// The layout of a log is that of Pebble: blocks, in which chunks lie end to end. A chunk has a checksum, a length, a
// type and the number of its log, and, since sync offsets were added, eight bytes more.
const (
	blockBytes   = 32 << 10
	headerBytes  = 11
	offsetBytes  = 8
	chunkFull    = 5 // types of chunks that begin a commit
	chunkFirst   = 6
	chunkMiddle  = 7
	chunkLast    = 8
	offsetsAbove = 4 // added to the type of a chunk that has a sync offset
)

// checkLogs reads all logs of a database of which the tables hold the commits up to held, and returns the latest commit
// of both. Its error wraps durable.ErrDamaged if a commit in between is missing, or was durable once and is not whole.
func checkLogs(fs vfs.FS, path string, held, seed uint64) (latest uint64, err error) {
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: path})
	if err != nil {
		return 0, err
	}
	latest = held
	for _, log := range logs {
		_, name := log.SegmentLocation(0) // the only one: no log goes over to another device
		data, err := durable.Read(fs, name)
		if err != nil {
			return 0, err
		}
		if latest, err = checkLog(data, uint32(log.Num), held, latest, seed); err != nil {
			return 0, fmt.Errorf("log %s is %w: %w", name, durable.ErrDamaged, err)
		}
	}
	return latest, nil
}

// checkLog reads one log, whose commits follow the latest one, and returns the latest there is then.
func checkLog(data []byte, log uint32, held, latest, seed uint64) (uint64, error) {
	end := 0
	for {
		commit, next, whole := readCommit(data, end, log)
		if !whole {
			break
		}
		mark, ok := markOf(commit, seed)
		switch {
		case !ok:
			return 0, fmt.Errorf("at byte %d there is a commit that is not this disk's", end)
		case mark.Number <= held && latest == held: // it is in the tables
		case mark.Number != latest+1:
			return 0, fmt.Errorf("commit %d at byte %d follows commit %d", mark.Number, end, latest)
		default:
			latest = mark.Number
		}
		end = next
	}
	// A commit that was being written begins right there.
	for at := skipPadding(data, end) + 1; at+headerBytes <= len(data); at++ {
		part, _, _ := readCommit(data, at, log)
		if m, ok := markOf(part, seed); ok && m.Number > latest {
			return 0,
				fmt.Errorf("what lies behind commit %d, at byte %d, is not whole, and commit %d follows at byte %d",
					latest, end, m.Number, at)
		}
	}
	return latest, nil
}

// chunk is a part of a commit.
type chunk struct {
	kind    byte // that of a chunk without a sync offset
	payload []byte
	next    int // where the next one may begin
}

// parseChunk reads the chunk at a place in a log; false: there is none.
func parseChunk(data []byte, at int, log uint32) (c chunk, ok bool) {
	end := blockEnd(data, at)
	if at+headerBytes > end {
		return chunk{}, false
	}
	c.kind = data[at+6]
	body := at + headerBytes
	if c.kind > chunkLast {
		c.kind -= offsetsAbove
		body += offsetBytes
	}
	c.next = body + int(binary.LittleEndian.Uint16(data[at+4:]))
	if c.kind < chunkFull || c.kind > chunkLast || binary.LittleEndian.Uint32(data[at+7:]) != log || c.next > end {
		return chunk{}, false
	}
	if checksum(data[at+6:c.next]) != binary.LittleEndian.Uint32(data[at:]) {
		return chunk{}, false
	}
	c.payload = data[body:c.next]
	return c, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of the database: a CRC that may itself be among the data of another one.
func checksum(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

func blockEnd(data []byte, at int) int { return min(len(data), (at/blockBytes+1)*blockBytes) }

// skipPadding passes over the end of a block that no chunk fits in.
func skipPadding(data []byte, at int) int {
	end := blockEnd(data, at)
	if end-at >= headerBytes+offsetBytes {
		return at
	}
	for _, b := range data[at:end] {
		if b != 0 {
			return at
		}
	}
	return end
}

// readCommit returns what is there of the commit at a place in a log, where the next one begins, and whether it is
// whole.
func readCommit(data []byte, at int, log uint32) (commit []byte, next int, whole bool) {
	for begun := false; ; begun = true {
		c, ok := parseChunk(data, skipPadding(data, at), log)
		if begins := c.kind == chunkFull || c.kind == chunkFirst; !ok || begins == begun {
			return commit, at, false
		}
		commit, at = append(commit, c.payload...), c.next
		if c.kind == chunkFull || c.kind == chunkLast {
			return commit, at, true
		}
	}
}

// markOf returns the mark of a commit, or of its beginning: the first record of its batch.
func markOf(commit []byte, seed uint64) (durable.Mark, bool) {
	const head = batchrepr.HeaderLen
	if len(commit) < head+1 || commit[head] != byte(pebble.InternalKeyKindSet) {
		return durable.Mark{}, false
	}
	key, rest, ok := prefixed(commit[head+1:])
	if !ok || !bytes.Equal(key, markKey) {
		return durable.Mark{}, false
	}
	value, _, ok := prefixed(rest)
	if !ok {
		return durable.Mark{}, false
	}
	return durable.ParseMark(value, seed)
}

// prefixed cuts off what lies behind its length.
func prefixed(data []byte) (part, rest []byte, ok bool) {
	length, n := binary.Uvarint(data)
	if n <= 0 || length > uint64(len(data)-n) {
		return nil, nil, false
	}
	return data[n : n+int(length)], data[n+int(length):], true
}
