// Package peerv1 stands for the wire format.
package peerv1

// Message is sent.
type Message struct {
	Kind  int
	Term  uint64
	Items []uint64
}

// ThingRecord is stored.
type ThingRecord struct {
	Ballot uint64
	Part   *Part
}

// Part is a part of a record.
type Part struct{ Value []byte }
