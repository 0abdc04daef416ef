package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// The journal's keys. The state, which is replicated: 'r' + key holds a RegisterRecord, 's' + session a
// PartitionSession, 'd' + session + number the Answer of a request, 'h' the SessionHorizon. The member's own: 'L' +
// index holds a LogEntry, 'P' the PartitionRecord; and of its disk: 'C' how many batches it has had, 'K' the
// PositionRecord.
const (
	countRecord    = 'C'
	heardRecord    = 'K'
	logRecord      = 'L'
	ownRecord      = 'P'
	doneRecord     = 'd'
	horizonRecord  = 'h'
	registerRecord = 'r'
	sessionRecord  = 's'
)

// RegisterRecords are the records of registers, as protocol.Keyed names kinds.
const RegisterRecords = string(registerRecord)

// Keys of the records about the disk itself, for package position.
var (
	CountKey = []byte{countRecord}
	HeardKey = []byte{heardRecord}
)

// BeforeState comes before all keys of the state, and after the member's own.
var BeforeState = []byte{'a'}

// ofDisk reports whether a record is about the disk itself, and goes only with it.
func ofDisk(key []byte) bool { return key[0] == countRecord || key[0] == heardRecord }

func logKey(index uint64) []byte { return binary.BigEndian.AppendUint64([]byte{logRecord}, index) }

func ownKey() []byte { return []byte{ownRecord} }

func registerKey(key []byte) []byte { return slices.Concat([]byte{registerRecord}, key) }

func sessionKey(session uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{sessionRecord}, session)
}

func doneKey(session, number uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{doneRecord}, session), number)
}

// beUint64 is a number of a key.
func beUint64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

type unmarshaler interface{ UnmarshalVTUnsafe([]byte) error }

// decode reads a record of this disk, within bounds. What it makes of it may alias the bytes.
func decode(r unmarshaler, raw []byte) error { return decodeWithin(r, raw, bounds.Record) }

func decodeWithin(r unmarshaler, raw []byte, check func(any) error) error {
	if err := r.UnmarshalVTUnsafe(raw); err != nil {
		return err
	}
	return check(r)
}

// readOwn reads what a disk says of the member's part; nil if it says nothing.
func readOwn(j *protocol.Journal) (*peerv1.PartitionRecord, error) {
	raw, ok := j.Get(ownKey())
	if !ok {
		return nil, nil
	}
	own := &peerv1.PartitionRecord{}
	if err := decode(own, bytes.Clone(raw)); err != nil {
		return nil, fmt.Errorf("the record of its part on disk is damaged: %w", err)
	}
	return own, nil
}
