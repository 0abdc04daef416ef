package history

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Record is a whole history: the operations, and what only CheckRSC regards.
type Record struct {
	Operations []Operation
	Messages   []Message
	Fences     []Fence
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

// WriteMessage appends one message, as Write does an operation.
func (w *Writer) WriteMessage(m Message) error {
	return w.write(messageLine{Kind: messageKind, From: m.From, Sent: int64(m.Sent), To: m.To, Received: int64(m.Received)})
}

// WriteFence appends one fence, as Write does an operation.
func (w *Writer) WriteFence(f Fence) error {
	return w.write(fenceLine{Kind: fenceKind, Client: f.Client, Invoked: int64(f.Invoked), Returned: int64(f.Returned)})
}

// WriteRecord writes a whole history with its messages and fences.
func WriteRecord(w io.Writer, record Record) error {
	writer := NewWriter(w)
	for _, o := range record.Operations {
		if err := writer.Write(o); err != nil {
			return err
		}
	}
	for _, m := range record.Messages {
		if err := writer.WriteMessage(m); err != nil {
			return err
		}
	}
	for _, f := range record.Fences {
		if err := writer.WriteFence(f); err != nil {
			return err
		}
	}
	return writer.Flush()
}

// WriteRecordFile writes a whole history to a file, in place of what it held.
func WriteRecordFile(path string, record Record) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	if err := errors.Join(WriteRecord(file, record), file.Close()); err != nil {
		return fmt.Errorf("write the history to %s: %w", path, err)
	}
	return nil
}

// ReadRecord reads what a Writer wrote, messages and fences too, in any order. With torn, a last line that has no end
// is left out, as by ReadTorn. Its errors name the line, from 1, and the field; one is the context's cause, once that
// has ended before a line. A line of more than MaxLine is an error.
func ReadRecord(ctx context.Context, r io.Reader, torn bool) (Record, error) {
	var record Record
	lines, table := bufio.NewReaderSize(r, 64<<10), fields()
	err := eachLine(ctx, lines, torn, func(text []byte) error {
		raw, kind, err := object(text)
		if err != nil {
			return err
		}
		switch kind {
		case messageKind:
			m, err := parseMessage(raw)
			record.Messages = append(record.Messages, m)
			return err
		case fenceKind:
			f, err := parseFence(raw)
			record.Fences = append(record.Fences, f)
			return err
		}
		o, err := parse(raw, table)
		record.Operations = append(record.Operations, o)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	return record, nil
}

func parseMessage(raw map[string]json.RawMessage) (Message, error) {
	var m Message
	err := setFields(&m, raw, []field[Message]{
		{"kind", true, func(*Message, json.RawMessage) error { return nil }},
		{"from", true, func(m *Message, raw json.RawMessage) error { return setClient(raw, &m.From) }},
		{"sent_ns", true, func(m *Message, raw json.RawMessage) error { return unmarshal(raw, &m.Sent, "an integer") }},
		{"to", true, func(m *Message, raw json.RawMessage) error { return setClient(raw, &m.To) }},
		{"received_ns", true, func(m *Message, raw json.RawMessage) error { return unmarshal(raw, &m.Received, "an integer") }},
	})
	if err == nil && m.Received <= m.Sent {
		err = errors.New(`field "received_ns" is not after "sent_ns"`)
	}
	return m, err
}

func parseFence(raw map[string]json.RawMessage) (Fence, error) {
	var f Fence
	err := setFields(&f, raw, []field[Fence]{
		{"kind", true, func(*Fence, json.RawMessage) error { return nil }},
		{"client", true, func(f *Fence, raw json.RawMessage) error { return setClient(raw, &f.Client) }},
		{"invoked_ns", true, func(f *Fence, raw json.RawMessage) error { return unmarshal(raw, &f.Invoked, "an integer") }},
		{"returned_ns", true, func(f *Fence, raw json.RawMessage) error { return unmarshal(raw, &f.Returned, "an integer") }},
	})
	if err == nil && f.Returned < f.Invoked {
		err = errors.New(`field "returned_ns" is before "invoked_ns"`)
	}
	return f, err
}
