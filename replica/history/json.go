package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/georegister/georegister/replica/register"
)

// line is one operation as JSON. Bytes (text) are a string if they are UTF-8, else {"base64": "..."}; absent
// values are left out or null, while "" is an empty value.
type line struct {
	Client        string `json:"client"`
	Site          string `json:"site,omitempty"`
	Kind          string `json:"kind"` // read, write, rmw
	Key           text   `json:"key"`
	Stale         bool   `json:"stale,omitempty"`           // read: it may be stale
	Value         text   `json:"value,omitzero"`            // write: what was written; absent deletes
	Function      string `json:"function,omitempty"`        // rmw: name.vN
	Args          []text `json:"args,omitempty"`            // rmw
	MaxValueBytes int    `json:"max_value_bytes,omitempty"` // rmw: what the call was bounded by; 0 is no bound
	// Rmw id; a string, as 64 bits don't fit other readers' numbers.
	Session    uint64 `json:"session,string,omitempty"`
	Number     uint64 `json:"number,omitempty"` // rmw id
	Invoked    int64  `json:"invoked_ns"`
	Returned   *int64 `json:"returned_ns,omitempty"` // absent if the outcome is unknown
	Status     string `json:"status"`                // ok, failed, invalid, unsupported, unavailable, unknown
	Reply      text   `json:"reply,omitzero"`        // read: the value; rmw: what the function replied
	Message    string `json:"message,omitempty"`     // for people
	Carstamp   string `json:"carstamp,omitempty"`    // timestamp/member.incarnation.boot/rmws
	RoundTrips int    `json:"round_trips,omitempty"` // wide-area ones that the answer waited for
	Fast       bool   `json:"fast,omitempty"`        // whether it took its protocol's fast path
}

// text is bytes in JSON.
type text []byte

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	switch {
	case t == nil:
		return []byte("null"), nil
	case utf8.Valid(t):
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": t})
}

// WriteRecord writes a whole history, an object a line: the operations, then the transactions, the messages and the
// fences.
func WriteRecord(w io.Writer, record Record) error {
	buffer := bufio.NewWriterSize(w, 64<<10) // it keeps the first error of w
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	for _, o := range record.Operations {
		_ = encoder.Encode(newLine(o))
	}
	for _, t := range record.Transactions {
		_ = encoder.Encode(newTransactionLine(t))
	}
	for _, m := range record.Messages {
		_ = encoder.Encode(
			messageLine{Kind: messageKind, From: m.From, Sent: int64(m.Sent), To: m.To, Received: int64(m.Received)})
	}
	for _, f := range record.Fences {
		_ = encoder.Encode(
			fenceLine{Kind: fenceKind, Client: f.Client, Invoked: int64(f.Invoked), Returned: int64(f.Returned)})
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
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

func newLine(o Operation) line {
	l := line{
		Client: o.Client, Site: o.Site,
		Kind: o.Request.Kind.String(), Key: text(append([]byte{}, o.Request.Key...)), Stale: o.Request.Stale,
		Value:    text(o.Request.Value),
		Function: o.Request.Call.Function, MaxValueBytes: o.Request.Call.MaxValueBytes,
		Session: o.Request.ID.Session, Number: o.Request.ID.Number,
		Invoked: int64(o.Invoked),
		Status:  register.Unknown.String(),
	}
	for _, arg := range o.Request.Call.Args {
		l.Args = append(l.Args, text(append([]byte{}, arg...)))
	}
	if !o.Known() {
		l.Message = o.Result.Message
		return l
	}
	returned := int64(o.Returned)
	l.Returned = &returned
	l.Status, l.Reply, l.Message = o.Result.Status.String(), text(o.Result.Value), o.Result.Message
	if !o.Result.Carstamp.IsZero() {
		l.Carstamp = o.Result.Carstamp.String()
	}
	l.RoundTrips, l.Fast = o.Result.RoundTrips, o.Result.Fast
	return l
}
