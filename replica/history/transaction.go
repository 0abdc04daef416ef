package history

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Transaction is a transaction over any number of keys as its client saw it.
type Transaction struct {
	Client   string // who asked; a client may have several transactions outstanding
	Site     string // where it asked
	ReadOnly bool   // it was asked for as one that writes nothing: a regular store orders those less
	// Reads are what it found that others had written, each key once. What it read of its own writes is none of it.
	Reads []Access
	// Writes are what it left, each key once.
	Writes []Access
	// Invoked and Returned are readings of one clock, as an Operation's. Returned has no meaning if the outcome is
	// unknown.
	Invoked  time.Duration
	Returned time.Duration
	Outcome  TransactionOutcome
	// Timestamp is the commit timestamp, or of a read-only one that of its snapshot, if the store tells it; 0 else. It
	// is a hint at most.
	Timestamp uint64
}

// Access is a value of a key that a transaction found or left.
type Access struct {
	Key     string
	Value   register.Value // absent: there was none, or it was deleted
	Version uint64         // what was found: the timestamp of its writer if the store tells it, as a hint; 0 else
}

// TransactionOutcome is what became of a transaction. The zero value counts as unknown.
type TransactionOutcome uint8

// The outcomes of transactions, as histories spell them by String.
const (
	UnknownOutcome TransactionOutcome = iota
	Committed
	Aborted // it certainly had no effect, whatever it read
)

func (o TransactionOutcome) String() string {
	switch o {
	case Committed:
		return "committed"
	case Aborted:
		return "aborted"
	}
	return "unknown"
}

// The kinds of lines that are transactions.
const (
	readOnlyKind  = "read-only"
	readWriteKind = "read-write"
)

// transactionLine is a Transaction as JSON.
type transactionLine struct {
	Client    string       `json:"client"`
	Site      string       `json:"site,omitempty"`
	Kind      string       `json:"kind"`
	Reads     []accessLine `json:"reads,omitempty"`
	Writes    []accessLine `json:"writes,omitempty"`
	Invoked   int64        `json:"invoked_ns"`
	Returned  *int64       `json:"returned_ns,omitempty"` // absent if the outcome is unknown
	Status    string       `json:"status"`                // committed, aborted, unknown
	Timestamp uint64       `json:"timestamp,string,omitempty"`
}

type accessLine struct {
	Key     text   `json:"key"`
	Value   text   `json:"value"` // null: absent
	Version uint64 `json:"version,string,omitempty"`
}

func newTransactionLine(t Transaction) transactionLine {
	l := transactionLine{
		Client: t.Client, Site: t.Site, Kind: readWriteKind, Reads: newAccessLines(t.Reads),
		Writes: newAccessLines(t.Writes), Invoked: int64(t.Invoked), Status: t.Outcome.String(), Timestamp: t.Timestamp,
	}
	if t.ReadOnly {
		l.Kind = readOnlyKind
	}
	if t.Outcome != UnknownOutcome {
		returned := int64(t.Returned)
		l.Returned = &returned
	}
	return l
}

func newAccessLines(accesses []Access) (lines []accessLine) {
	for _, a := range accesses {
		lines = append(lines, accessLine{text(append([]byte{}, a.Key...)), text(a.Value), a.Version})
	}
	return lines
}

// parseTransaction reads a transaction.
func parseTransaction(raw map[string]json.RawMessage, kind string) (t Transaction, err error) {
	_, hasReturned := raw["returned_ns"]
	t.ReadOnly = kind == readOnlyKind
	err = setFields(raw, []field{
		{"client", true, client(&t.Client)},
		{"site", false, scalar(&t.Site, "a string")},
		{"kind", true, known},
		{"reads", false, accesses(&t.Reads)},
		{"writes", false, accesses(&t.Writes)},
		{"invoked_ns", true, scalar(&t.Invoked, "an integer")},
		{"returned_ns", false, scalar(&t.Returned, "an integer")},
		{"status", true, spelled(&t.Outcome, "", Committed, Aborted, UnknownOutcome)},
		{"timestamp", false, unsigned(&t.Timestamp)},
	})
	switch {
	case err != nil:
	case t.ReadOnly && len(t.Writes) > 0:
		err = fmt.Errorf("field %q: a %s transaction has none", "writes", readOnlyKind)
	case t.Outcome == UnknownOutcome:
		t.Returned = 0
	default:
		err = checkReturned(hasReturned, t.Invoked, t.Returned)
	}
	return t, err
}

// accesses reads what a transaction found or left.
func accesses(into *[]Access) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var items []map[string]json.RawMessage
		if err := unmarshal(raw, &items, "an array of objects"); err != nil {
			return err
		}
		seen := map[string]bool{}
		for i, item := range items {
			var a Access
			var key register.Value
			err := setFields(item, []field{
				{"key", true, value(&key)},
				{"value", false, value(&a.Value)},
				{"version", false, unsigned(&a.Version)},
			})
			a.Key = string(key)
			if err == nil && seen[a.Key] {
				err = fmt.Errorf("field %q: %s is there twice; a transaction finds and leaves one value of a key",
					"key", DescribeValue(key))
			}
			if err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
			seen[a.Key] = true
			*into = append(*into, a)
		}
		return nil
	}
}
