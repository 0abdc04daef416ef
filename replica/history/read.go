package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/georegister/georegister/replica/register"
)

// MaxLine bounds a line of a history, in bytes. The largest value that a store can hold fits, whatever its bytes are.
const MaxLine = 128 << 20

// ErrTorn is in the error of a last line that is wrong and has no end: its writer was killed, or is writing still.
var ErrTorn = errors.New("the line has no end, as if its writer was killed, or is writing still")

// eachLine hands on every line that is not blank, until the context ends. What it hands on is valid until take returns.
func eachLine(ctx context.Context, lines *bufio.Reader, torn bool, take func(text []byte) error) error {
	var text []byte
	for number := 1; ; number++ {
		if ctx.Err() != nil {
			return fmt.Errorf("line %d: stopped: %w", number, context.Cause(ctx))
		}
		var err error
		text, err = readLine(lines, text[:0])
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return fmt.Errorf("read the history: line %d: %w", number, err)
		}
		if blank := len(bytes.TrimSpace(text)) == 0; !blank && !(end && torn) {
			if err := take(text); err != nil && end {
				return fmt.Errorf("line %d: %w; %w", number, err, ErrTorn)
			} else if err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		if end {
			return nil
		}
	}
}

// readLine appends a line to text, with its end.
func readLine(lines *bufio.Reader, text []byte) ([]byte, error) {
	for {
		part, err := lines.ReadSlice('\n')
		if len(text)+len(part) > MaxLine {
			return nil, fmt.Errorf("longer than %d MiB, which no operation is: this file is no history", MaxLine>>20)
		}
		text = append(text, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// object takes a line apart, and finds its kind if that is a string.
func object(text []byte) (raw map[string]json.RawMessage, kind string, err error) {
	if !utf8.Valid(text) {
		return nil, "", errors.New("not UTF-8; write other bytes as {\"base64\": \"...\"}")
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, "", fmt.Errorf("not a JSON object, as each line of a history is: %w", err)
	}
	if json.Unmarshal(raw["kind"], &kind) != nil {
		kind = "" // whoever reads the field says what is wrong
	}
	return raw, kind, nil
}

// field is one field of a line: whether each line has it, and what reads it.
type field struct {
	name     string
	required bool
	set      func(json.RawMessage) error
}

// setFields reads a line field by field, as encoding/json would not name the field of every error.
func setFields(raw map[string]json.RawMessage, table []field) error {
	for _, field := range table {
		value, ok := raw[field.name]
		delete(raw, field.name)
		if !ok || string(value) == "null" {
			if field.required {
				return fmt.Errorf("field %q is missing", field.name)
			}
			continue
		}
		if err := field.set(value); err != nil {
			return fmt.Errorf("field %q: %w", field.name, err)
		}
	}
	for name := range raw {
		// Any one will do for a message; a file with several gets another at the next attempt.
		return fmt.Errorf("field %q is unknown", name)
	}
	return nil
}

// parse reads an operation.
func parse(raw map[string]json.RawMessage) (Operation, error) {
	_, hasReturned := raw["returned_ns"]
	var o Operation
	var key register.Value
	call := &o.Request.Call
	err := setFields(raw, []field{
		{"client", true, client(&o.Client)},
		{"site", false, scalar(&o.Site, "a string")},
		{"kind", true, spelled(&o.Request.Kind, ", nor message, fence, read-only or read-write", register.Read,
			register.Write, register.RMW)},
		{"key", true, value(&key)},
		{"stale", false, scalar(&o.Request.Stale, "true or false")},
		{"value", false, value(&o.Request.Value)},
		{"function", false, scalar(&call.Function, "a string")},
		{"args", false, func(raw json.RawMessage) error { return setArgs(&call.Args, raw) }},
		{"max_value_bytes", false, scalar(&call.MaxValueBytes, "an integer")},
		{"session", false, unsigned(&o.Request.ID.Session)},
		{"number", false, scalar(&o.Request.ID.Number, "an integer from 0")},
		{"invoked_ns", true, scalar(&o.Invoked, "an integer")},
		{"returned_ns", false, scalar(&o.Returned, "an integer")},
		{"status", true, spelled(&o.Result.Status, "", register.OK, register.Failed, register.Invalid,
			register.Unsupported, register.Unavailable, register.Unknown)},
		{"reply", false, value(&o.Result.Value)},
		{"message", false, scalar(&o.Result.Message, "a string")},
		{"carstamp", false, func(raw json.RawMessage) error { return setCarstamp(&o.Result.Carstamp, raw) }},
		{"round_trips", false, scalar(&o.Result.RoundTrips, "an integer")},
		{"fast", false, scalar(&o.Result.Fast, "true or false")},
	})
	o.Request.Key = string(key)
	switch {
	case err != nil:
		return Operation{}, err
	case !o.Known():
		o.Returned = 0
	default:
		if err := checkReturned(hasReturned, o.Invoked, o.Returned); err != nil {
			return Operation{}, err
		}
	}
	if o.Request.Kind == register.RMW && call.Function == "" {
		return Operation{}, fmt.Errorf("field %q is missing; every rmw has one", "function")
	}
	return o, nil
}

// checkReturned reports what is wrong with when an operation of known outcome returned.
func checkReturned(told bool, invoked, returned time.Duration) error {
	switch {
	case !told:
		return errors.New(`field "returned_ns" is missing; only an unknown outcome has none`)
	case returned < invoked:
		return errors.New(`field "returned_ns" is before "invoked_ns"`)
	}
	return nil
}

// known is for a field that was read before.
func known(json.RawMessage) error { return nil }

// client reads who did something. Other tools may number their clients.
func client(into *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if number := json.Number(""); json.Unmarshal(raw, &number) == nil && raw[0] != '"' {
			*into = number.String()
			return nil
		}
		return unmarshal(raw, into, "a string or a number")
	}
}

// scalar reads a value of a basic type.
func scalar[T any](into *T, want string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error { return unmarshal(raw, into, want) }
}

// unsigned reads 64 bits, as a number or, since they don't fit other writers' numbers, as a string.
func unsigned(into *uint64) func(json.RawMessage) error {
	return func(raw json.RawMessage) (err error) {
		*into, err = strconv.ParseUint(strings.Trim(string(raw), `"`), 10, 64)
		return err
	}
}

// value reads bytes, as bytesOf does.
func value(into *register.Value) func(json.RawMessage) error {
	return func(raw json.RawMessage) (err error) {
		*into, err = bytesOf(raw)
		return err
	}
}

// unmarshal reads a value of a type that encoding/json knows; want names it in the error.
func unmarshal[T any](raw json.RawMessage, into *T, want string) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s is not %s", shorten(raw), want)
	}
	return nil
}

// spelled reads one of a few names. The others are for the error.
func spelled[T fmt.Stringer](into *T, others string, known ...T) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var name string
		err := json.Unmarshal(raw, &name)
		i := slices.IndexFunc(known, func(k T) bool { return k.String() == name })
		if err != nil || i < 0 {
			return fmt.Errorf("%s is not one of %v%s", shorten(raw), known, others)
		}
		*into = known[i]
		return nil
	}
}

// bytesOf reads bytes that are a string, or {"base64": "..."}.
func bytesOf(raw json.RawMessage) (register.Value, error) {
	var plain string
	if json.Unmarshal(raw, &plain) == nil {
		return append(register.Value{}, plain...), nil
	}
	var coded struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(raw, &coded); err != nil || coded.Base64 == nil {
		return nil, fmt.Errorf("%s is neither a string nor {\"base64\": \"...\"}", shorten(raw))
	}
	return coded.Base64, nil
}

func setArgs(into *[][]byte, raw json.RawMessage) error {
	var args []json.RawMessage
	if err := unmarshal(raw, &args, "an array"); err != nil {
		return err
	}
	for i, arg := range args {
		value, err := bytesOf(arg)
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		*into = append(*into, append([]byte{}, value...))
	}
	return nil
}

func setCarstamp(into *register.Carstamp, raw json.RawMessage) error {
	var text string
	if err := unmarshal(raw, &text, "a string"); err != nil {
		return err
	}
	var timestamp, rmws uint64
	var member, incarnation uint16
	var boot uint32
	n, err := fmt.Sscanf(text, "%d/%d.%d.%d/%d", &timestamp, &member, &incarnation, &boot, &rmws)
	carstamp := register.Carstamp{
		Timestamp: timestamp,
		Writer:    register.NewWriter(uint32(member), uint32(incarnation), boot),
		RMWs:      rmws,
	}
	if err != nil || n != 5 || carstamp.String() != text {
		return fmt.Errorf("%q is not timestamp/member.incarnation.boot/rmws", text)
	}
	*into = carstamp
	return nil
}

// shorten keeps messages readable.
func shorten(raw []byte) string {
	const most = 60
	if len(raw) > most {
		return strings.ToValidUTF8(string(raw[:most]), "") + "..."
	}
	return string(raw)
}
