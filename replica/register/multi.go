package register

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Several calls on one value are one call of Multi: they are applied in turn, as one change, and each has its own
// reply. One that refuses changes nothing, and the others are applied all the same, as in a transaction of Redis.
const (
	// Multi takes a guard and the calls (EncodeCalls). It replies EncodeReplies of theirs; or nothing, and changes
	// nothing, if there is a guard and the value is not the one that the guard was made of.
	Multi = "multi.v1"
	// Get, as one of the calls, takes nothing and replies with the value that the calls before it have left.
	Get = "get"

	// MaxCalls bounds the calls of a Multi.
	MaxCalls = 1000
	// mostWork bounds the bytes of all values that the calls of a Multi find: a shard does nothing else meanwhile.
	mostWork = 64 << 20
	// mostReplies bounds what a Multi replies where nothing bounds values.
	mostReplies = 64 << 20
	// mostArgs bounds the arguments of one of the calls. No function takes as many.
	mostArgs = 8
)

// Guard stands for a value, or for there being none, in a call of Multi. No guard is no bytes.
func Guard(v Value) []byte {
	if !v.Present() {
		return []byte{0}
	}
	sum := sha256.Sum256(v)
	return append([]byte{1}, sum[:]...)
}

// EncodeCalls makes an argument of Multi of some calls. What bounds their values is the bound of the whole call.
func EncodeCalls(calls []Call) []byte {
	var b []byte
	for _, c := range calls {
		b = appendBytes(b, []byte(c.Function))
		b = binary.AppendUvarint(b, uint64(len(c.Args)))
		for _, a := range c.Args {
			b = appendBytes(b, a)
		}
	}
	return b
}

// decodeCalls is the other way round. The arguments are parts of b.
func decodeCalls(b []byte) (calls []Call, err error) {
	for len(b) > 0 {
		if len(calls) == MaxCalls {
			return nil, fmt.Errorf("more than %d calls", MaxCalls)
		}
		var function []byte
		if function, b, err = cutBytes(b); err != nil {
			return nil, err
		}
		count, n := binary.Uvarint(b)
		if n <= 0 || count > mostArgs {
			return nil, errCutShort
		}
		b = b[n:]
		c := Call{Function: string(function)}
		for range count {
			var argument []byte
			if argument, b, err = cutBytes(b); err != nil {
				return nil, err
			}
			c.Args = append(c.Args, argument)
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// Reply is what one call of a Multi replied.
type Reply struct {
	Value   Value
	Refused string // not empty: the function refused, for this reason
}

// The kinds of replies, as they are encoded.
const (
	absentReply byte = iota
	presentReply
	refusedReply
)

func appendReply(b []byte, o Outcome) []byte {
	switch {
	case o.Refused != "":
		return appendBytes(append(b, refusedReply), []byte(o.Refused))
	case !o.Reply.Present():
		return append(b, absentReply)
	}
	return appendBytes(append(b, presentReply), o.Reply)
}

// DecodeReplies takes apart what a Multi replied. The values are parts of v. Done is false if its guard did not hold.
func DecodeReplies(v Value) (replies []Reply, done bool, err error) {
	if !v.Present() {
		return nil, false, nil
	}
	for b := []byte(v); len(b) > 0; {
		kind := b[0]
		b = b[1:]
		var text []byte
		if kind != absentReply {
			if text, b, err = cutBytes(b); err != nil {
				return nil, false, err
			}
		}
		switch kind {
		case absentReply:
			replies = append(replies, Reply{})
		case presentReply:
			replies = append(replies, Reply{Value: text})
		case refusedReply:
			replies = append(replies, Reply{Refused: string(text)})
		default:
			return nil, false, fmt.Errorf("a reply of kind %d", kind)
		}
	}
	return replies, true, nil
}

var errCutShort = errors.New("cut short, or none that this program makes")

func appendBytes(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// cutBytes takes the first of what appendBytes has appended. It is never nil.
func cutBytes(b []byte) (part, rest []byte, err error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, errCutShort
	}
	b = b[n:]
	return b[:size:size], b[size:], nil
}

// checkMulti reports what is wrong with the calls of a Multi.
func (r *Registry) checkMulti(args [][]byte) error {
	calls, err := decodeCalls(args[1])
	if err != nil {
		return fmt.Errorf("rmw function %s: argument 1: %w", Multi, err)
	}
	for i, c := range calls {
		err := r.Check(c)
		switch {
		case c.Function == Multi:
			err = errors.New("it is one of several itself")
		case c.Function == Get && len(c.Args) > 0:
			err = fmt.Errorf("%s takes no arguments, not %d", Get, len(c.Args))
		case c.Function == Get:
			err = nil
		}
		if err != nil {
			return fmt.Errorf("rmw function %s: call %d: %w", Multi, i, err)
		}
	}
	return nil
}

// multi applies the calls of a Multi, which were checked with it.
func (r *Registry) multi(current Value, args [][]byte, maxBytes int) Outcome {
	if guard := args[0]; len(guard) > 0 && !bytes.Equal(guard, Guard(current)) {
		return Outcome{}
	}
	calls, err := decodeCalls(args[1])
	if err != nil {
		return Outcome{Refused: err.Error()}
	}
	most := mostReplies
	if maxBytes > 0 {
		most = maxBytes
	}
	out, replies, work := Outcome{Next: current}, Value{}, 0
	for _, c := range calls {
		c.MaxValueBytes = maxBytes
		if work += len(out.Next); work > mostWork {
			return Outcome{Refused: fmt.Sprintf("the calls read more than %d bytes in all", mostWork)}
		}
		one := Outcome{Reply: out.Next}
		if c.Function != Get {
			one = r.apply(out.Next, c)
		}
		if one.Refused == "" && one.Changed {
			out.Next, out.Changed = one.Next, true
		}
		if replies = appendReply(replies, one); len(replies) > most {
			return Outcome{Refused: fmt.Sprintf("the replies have more than %d bytes in all", most)}
		}
	}
	if out.Reply = replies; out.Changed {
		out.Next = bytes.Clone(out.Next) // it may be a part of the arguments
	}
	return out
}
