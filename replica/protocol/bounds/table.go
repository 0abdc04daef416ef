package bounds

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one of an encoded message.
type field struct {
	wire    protowire.Type
	counted bool   // a number that has the bound
	inside  fields // of a message
}

// fields are those of a message, by number.
type fields []field

var (
	number = field{wire: protowire.VarintType}
	count  = field{wire: protowire.VarintType, counted: true}
	fixed  = field{wire: protowire.Fixed64Type}
	bytes  = field{wire: protowire.BytesType}
)

func message(inside fields) field { return field{wire: protowire.BytesType, inside: inside} }

// The messages of a table, as in api/peer/v1.
var (
	registerRecord = fields{1: count, 2: fixed, 3: count, 4: number, 5: bytes}
	instanceID     = fields{1: fixed, 2: count}
	answer         = fields{1: number, 2: bytes, 3: bytes, 4: number, 5: count, 6: fixed, 7: count}
	executed       = fields{1: message(instanceID), 2: message(answer), 3: count, 4: count}
	done           = fields{1: number, 2: message(answer)}
	session        = fields{1: number, 2: number, 3: number, 4: message(done)}
	keyState       = fields{
		1: message(registerRecord), 2: count, 3: message(executed), 4: message(session), 5: number, 6: fixed, 7: count,
	}
)

var errNoTable = errors.New("no table of a register")

// Table reports what is no table of RMWPaxos, an encoded KeyState, or one with a number above its bound: then the error
// wraps register.ErrNumber. Tables travel and are stored encoded, and are decoded where they change; what can't be
// would stop whoever does so. Nothing is decoded here either: that would cost more than all else that is done with a
// message.
func Table(encoded []byte) error {
	c := told()
	if err := c.fields(keyState, encoded); err != nil {
		return err
	}
	return c.report("table")
}

func (c *check) fields(known fields, encoded []byte) error {
	for len(encoded) > 0 {
		id, wire, n := protowire.ConsumeTag(encoded)
		if n < 0 {
			return fmt.Errorf("%w: %w", errNoTable, protowire.ParseError(n))
		}
		encoded = encoded[n:]
		var f field
		if int(id) < len(known) && id > 0 {
			if f = known[id]; f.wire != wire {
				return fmt.Errorf("%w: field %d has type %d", errNoTable, id, wire)
			}
		}
		switch {
		case f.counted:
			var v uint64
			v, n = protowire.ConsumeVarint(encoded)
			c.of(v)
		case f.inside != nil:
			var inside []byte
			if inside, n = protowire.ConsumeBytes(encoded); n >= 0 {
				if err := c.fields(f.inside, inside); err != nil {
					return err
				}
			}
		default:
			n = protowire.ConsumeFieldValue(id, wire, encoded)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", errNoTable, id, protowire.ParseError(n))
		}
		encoded = encoded[n:]
	}
	return nil
}
