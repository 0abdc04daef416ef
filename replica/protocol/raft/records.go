package raft

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// The journal's keys: 'h' holds a RaftHard, 't' a RaftStart, 'l' + index an entry of the log as the library encodes it,
// 'a' a RaftApplied, 'k' + key a KeyState whose previous.timestamp is the index of the entry that made it, and 'b' the
// RaftApplied that a newcomer's records are at least as new as.
const (
	hardRecord    = 'h'
	startRecord   = 't'
	entryRecord   = 'l'
	appliedRecord = 'a'
	basisRecord   = 'b'
	stateRecord   = 'k'
	// ExtensionRecord begins the keys of an extension's own records.
	ExtensionRecord = 'w'
)

// recordKinds are those of the journals of members, those of an extension among them.
var recordKinds = []byte{hardRecord, startRecord, entryRecord, appliedRecord, basisRecord, stateRecord, ExtensionRecord}

// records are what a member keeps in its journal.
type records struct {
	*base.Base
}

// record is a message of raft.proto that is kept.
type record interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// load reads the record of a kind that has one, and reports whether it is there.
func (d *records) load(kind byte, r record) bool {
	raw, ok := d.Journal.Get([]byte{kind})
	if ok {
		if err := bounds.Decode(raw, r, bounds.Record); err != nil {
			d.Fault("record %q on disk is damaged: %w", kind, err)
		}
	}
	return ok
}

func (d *records) put(kind byte, r record) {
	key := []byte{kind}
	d.Journal.Put(key, d.Encode(r, "the record", key))
}

// State is what a key has become by the entries that are applied. It is the caller's.
func (d *records) State(key []byte) *peerv1.KeyState {
	state := &peerv1.KeyState{}
	if raw, ok := d.Journal.Get(d.Keys.Lookup(stateRecord, key)); ok {
		d.decodeState(key, raw, state)
	}
	return state
}

func (d *records) decodeState(key, raw []byte, state *peerv1.KeyState) {
	if err := bounds.Decode(raw, state, bounds.Record); err != nil {
		d.Fault("the state of %q on disk is damaged: %w", key, err)
	}
}

func (d *records) putState(key []byte, state *peerv1.KeyState) {
	d.Journal.Put(d.Keys.Record(stateRecord, key), d.Encode(state, "the state", key))
}

// merge takes another member's state of a key, if a later entry made it. States of a key are those after prefixes of
// one log; that this one may be ahead of the rest of the state does no harm, since entries leave it alone that it has
// already.
func (d *records) merge(key, raw []byte) error {
	theirs := &peerv1.KeyState{}
	if err := bounds.Decode(raw, theirs, bounds.Told); err != nil {
		return err
	}
	if theirs.GetPrevious().GetTimestamp() > d.State(key).GetPrevious().GetTimestamp() {
		d.Journal.Put(d.Keys.Record(stateRecord, key), slices.Clone(raw))
	}
	return nil
}

// commandsOf decodes an entry of the log; it is nil if the entry has no commands, as those of the library itself.
func (d *records) commandsOf(e *raftpb.Entry) *peerv1.RaftEntry {
	if e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
		return nil
	}
	entry := &peerv1.RaftEntry{}
	if err := entry.UnmarshalVT(e.GetData()); err != nil {
		d.Fault("entry %d of the log is damaged: %w", e.GetIndex(), err)
	}
	return entry
}
