// Package wire writes operations and results as messages of the gRPC listener, and reads them. Kinds and statuses have
// the same numbers in both. Values are shared, not copied.
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

// SetRequest fills the request of an operation.
func SetRequest(m *registerv1.Request, op *register.Operation) {
	read := op.Kind == register.Read
	m.Kind, m.Stale, m.Regular = registerv1.Kind(op.Kind), read && op.Stale, read && op.Regular
	m.Key, m.After = append(m.Key[:0], op.Key...), Dependencies(op.After)
	m.Present, m.Value = op.Value.Present(), op.Value
	m.Function, m.Arguments, m.Id = op.Call.Function, op.Call.Args, nil
	if id := op.ID; id.Session != 0 {
		m.Id = &registerv1.RmwID{
			Session: id.Session, Number: id.Number, FirstIncomplete: id.FirstIncomplete, IssuedAt: id.IssuedAt,
		}
	}
}

// SetResponse fills the response of a result. The carstamp is room for the result's, if it has one.
func SetResponse(m *registerv1.Response, carstamp *registerv1.Carstamp, r register.Result) {
	m.Status, m.Present, m.Value = registerv1.Status(r.Status), r.Value.Present(), r.Value
	m.Message, m.Carstamp, m.TooLarge, m.Proof = r.Message, nil, false, r.Proof
	m.RoundTrips, m.Fast, m.Depends = uint32(max(r.RoundTrips, 0)), r.Fast, r.Depends
	if !r.Carstamp.IsZero() {
		SetCarstamp(carstamp, r.Carstamp)
		m.Carstamp = carstamp
	}
}

// Result is what a response tells.
func Result(m *registerv1.Response) register.Result {
	return register.Result{
		Status: register.Status(m.Status), Value: register.ValueOf(m.Present, m.Value), Message: m.Message,
		Carstamp: Carstamp(m.Carstamp), RoundTrips: int(m.RoundTrips), Fast: m.Fast, Depends: m.Depends, Proof: m.Proof,
	}
}

// Dependency is one of those that an operation comes after.
func Dependency(m *registerv1.Dependency) register.Dependency {
	return register.Dependency{
		Key: string(m.Key), Proof: m.Proof,
		Versioned: register.Versioned{Carstamp: Carstamp(m.Carstamp), Value: register.ValueOf(m.Present, m.Value)},
	}
}

// Dependencies makes the messages of what an operation comes after; nil, without an allocation, if that is nothing.
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
