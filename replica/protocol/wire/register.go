// Package wire puts what protocols share into messages and records, and takes it out: registers with their carstamps,
// rmws, and what operations answer.
package wire

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// Put sets what a message tells of a register; the message and v share the value.
func Put(m *peerv1.Message, v register.Versioned) {
	m.Timestamp, m.Writer, m.Rmws = v.Carstamp.Timestamp, uint64(v.Carstamp.Writer), v.Carstamp.RMWs
	m.Present, m.Value = v.Value.Present(), v.Value
}

// Of is what a message tells of a register.
func Of(m *peerv1.Message) register.Versioned {
	return register.Versioned{
		Carstamp: Carstamp(m.Timestamp, m.Writer, m.Rmws), Value: register.ValueOf(m.Present, m.Value),
	}
}

// Record is a register as it is kept on disk.
func Record(v register.Versioned) *peerv1.RegisterRecord {
	r := &peerv1.RegisterRecord{}
	PutRecord(r, v)
	return r
}

// PutRecord has a record tell of a register.
func PutRecord(r *peerv1.RegisterRecord, v register.Versioned) {
	r.Timestamp, r.Writer, r.Rmws = v.Carstamp.Timestamp, uint64(v.Carstamp.Writer), v.Carstamp.RMWs
	r.Present, r.Value = v.Value.Present(), v.Value
}

// OfRecord is the register of a record; of nil, one that was never written.
func OfRecord(r *peerv1.RegisterRecord) register.Versioned {
	return register.Versioned{
		Carstamp: Carstamp(r.GetTimestamp(), r.GetWriter(), r.GetRmws()),
		Value:    register.ValueOf(r.GetPresent(), r.GetValue()),
	}
}

// Carstamp is made of its three fields as messages have them.
func Carstamp(timestamp, writer, rmws uint64) register.Carstamp {
	return register.Carstamp{Timestamp: timestamp, Writer: register.Writer(writer), RMWs: rmws}
}

// Dependency is what a session depends on, as messages carry it; it shares the value.
func Dependency(d register.Dependency) *peerv1.Dependency {
	return &peerv1.Dependency{
		Key: []byte(d.Key), Timestamp: d.Carstamp.Timestamp, Writer: uint64(d.Carstamp.Writer), Rmws: d.Carstamp.RMWs,
		Present: d.Value.Present(), Value: d.Value,
	}
}

// OfDependency is the register that a dependency tells of.
func OfDependency(d *peerv1.Dependency) register.Versioned {
	return register.Versioned{
		Carstamp: Carstamp(d.Timestamp, d.Writer, d.Rmws), Value: register.ValueOf(d.Present, d.Value),
	}
}
