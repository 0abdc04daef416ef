package history

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
)

// Record is a whole history: the operations, the transactions, which package transactions checks, and what only regular
// models regard.
type Record struct {
	Operations   []Operation
	Transactions []Transaction
	Messages     []Message
	Fences       []Fence
}

// CheckRSC is CheckRSC of the whole record, whatever messages and fences options has.
func (r Record) CheckRSC(ctx context.Context, options RSCOptions) (RSCVerdict, error) {
	options.Messages, options.Fences = r.Messages, r.Fences
	return CheckRSC(ctx, r.Operations, options)
}

// The kinds of lines that are no operations.
const (
	messageKind = "message"
	fenceKind   = "fence"
)

// messageLine is a Message as JSON.
type messageLine struct {
	Kind     string `json:"kind"`
	From     string `json:"from"`
	Sent     int64  `json:"sent_ns"`
	To       string `json:"to"`
	Received int64  `json:"received_ns"`
}

// fenceLine is a Fence as JSON.
type fenceLine struct {
	Kind     string `json:"kind"`
	Client   string `json:"client"`
	Invoked  int64  `json:"invoked_ns"`
	Returned int64  `json:"returned_ns"`
}

// ReadRecord reads what WriteRecord wrote, in any order; blank lines are skipped. With torn, which is for the history
// of a process that was killed, a last line that has no end is left out: a check then doesn't know of that operation,
// and may miss it. Its errors name the line, from 1, and the field; one is the context's cause, once that has ended
// before a line. A line of more than MaxLine is an error.
func ReadRecord(ctx context.Context, r io.Reader, torn bool) (Record, error) {
	var record Record
	err := eachLine(ctx, bufio.NewReaderSize(r, 64<<10), torn, func(text []byte) error {
		raw, kind, err := object(text)
		if err != nil {
			return err
		}
		switch kind {
		case messageKind:
			m, err := parseMessage(raw)
			record.Messages = append(record.Messages, m)
			return err
		case readOnlyKind, readWriteKind:
			t, err := parseTransaction(raw, kind)
			record.Transactions = append(record.Transactions, t)
			return err
		case fenceKind:
			f, err := parseFence(raw)
			record.Fences = append(record.Fences, f)
			return err
		}
		o, err := parse(raw)
		record.Operations = append(record.Operations, o)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	return record, nil
}

func parseMessage(raw map[string]json.RawMessage) (m Message, err error) {
	err = setFields(raw, []field{
		{"kind", true, known},
		{"from", true, client(&m.From)},
		{"sent_ns", true, scalar(&m.Sent, "an integer")},
		{"to", true, client(&m.To)},
		{"received_ns", true, scalar(&m.Received, "an integer")},
	})
	if err == nil && m.Received <= m.Sent {
		err = errors.New(`field "received_ns" is not after "sent_ns"`)
	}
	return m, err
}

func parseFence(raw map[string]json.RawMessage) (f Fence, err error) {
	err = setFields(raw, []field{
		{"kind", true, known},
		{"client", true, client(&f.Client)},
		{"invoked_ns", true, scalar(&f.Invoked, "an integer")},
		{"returned_ns", true, scalar(&f.Returned, "an integer")},
	})
	if err == nil && f.Returned < f.Invoked {
		err = errors.New(`field "returned_ns" is before "invoked_ns"`)
	}
	return f, err
}
