// Package wire writes carstamps, and what operations come after, as messages of the gRPC listener.
package wire

import (
	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
)

// Carstamp reads a carstamp; that of no message is the zero one.
func Carstamp(m *registerv1.Carstamp) register.Carstamp {
	return register.Carstamp{Timestamp: m.GetTimestamp(), Writer: register.Writer(m.GetWriter()), RMWs: m.GetRmws()}
}

// SetCarstamp fills the message of a carstamp.
func SetCarstamp(m *registerv1.Carstamp, c register.Carstamp) {
	m.Timestamp, m.Writer, m.Rmws = c.Timestamp, uint64(c.Writer), c.RMWs
}

// Dependencies makes the messages of what an operation comes after; nil, without an allocation, if that is nothing.
// Values are shared, not copied.
func Dependencies(after []register.Dependency) []*registerv1.Dependency {
	if len(after) == 0 {
		return nil
	}
	type message struct {
		registerv1.Dependency
		carstamp registerv1.Carstamp
	}
	messages, all := make([]message, len(after)), make([]*registerv1.Dependency, len(after))
	for i, d := range after {
		m := &messages[i]
		m.Key, m.Present, m.Value = []byte(d.Key), d.Value.Present(), d.Value
		m.Proof = d.Proof
		SetCarstamp(&m.carstamp, d.Carstamp)
		m.Carstamp, all[i] = &m.carstamp, &m.Dependency
	}
	return all
}
