// Package resp reads and writes RESP, the protocol of Redis, versions 2 and 3, as a server does.
package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Bounds that Redis has as well.
const (
	maxInline    = 64 << 10 // longest inline command, in bytes
	maxDigits    = 18       // longest number of a header
	maxArguments = 1 << 20  // most arguments of a command
	maxBulk      = 512 << 20
)

// Memory follows the bytes that a client has sent, and not those it announces: an argument that no block has room for
// gets one of largeBlock at most, and one of twice the size when that is full.
const (
	smallBlock = 4 << 10 // the first block of a command; a reader keeps no larger one between commands
	largeBlock = 64 << 10
)

// Overhead is what a reader takes beside what Reader.Grown is told, in bytes, about.
const Overhead = buffer + smallBlock

const buffer = 16 << 10

// ProtocolError is input that is not RESP. The stream can't be read any further. Its text is Redis' own.
type ProtocolError string

func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

const (
	invalidCount ProtocolError = "invalid multibulk length"
	invalidSize  ProtocolError = "invalid bulk length"
)

// ForeignError is input of another protocol, such as HTTP. Someone may have brought a program of someone else to send
// it here, with commands in its body: nothing more is to be read, and nothing to be answered. Its text names the
// protocol.
type ForeignError string

func (e ForeignError) Error() string { return "the input is " + string(e) + ", not RESP" }

// Limits bound one command. What is over them is read and dropped, so that the connection can go on.
type Limits struct {
	ArgumentBytes int // largest argument
	CommandBytes  int // all arguments of a command together, each counted with a little overhead
}

// Bounds of a command from who has not said yet who they are, as in Redis. What is over them ends the connection.
const (
	strangerArguments = 10
	strangerBulk      = 16 << 10
)

// argumentOverhead is what an argument counts for beside its bytes: its slice header.
const argumentOverhead = 24

// Excess says what of a command was over a limit.
type Excess struct {
	Argument int // position of the argument that was too large; 0 is the command's name. -1: the command was
	Bytes    int // its size
	Limit    int
}

// Command is one command. Its arguments are valid until the next one is read.
type Command struct {
	Args   [][]byte // the name first; on excess, those before the excess
	Excess *Excess  // nil if the command is whole
}

// Reader reads commands.
type Reader struct {
	in     *bufio.Reader
	limits Limits
	block  []byte // where the next argument goes; it is never moved, only left behind full
	args   [][]byte
	held   int // bytes that were told to Grown

	// Stranger holds the commands from the next one on to little: their sender is not authenticated, and should be.
	Stranger bool
	// Grown, unless nil, is told by how many bytes the memory grew that unfinished commands and the last finished one
	// take; negative: it is less again. It is called before more is read.
	Grown func(bytes int)
}

// NewReader returns a reader of commands from in.
func NewReader(in io.Reader, limits Limits) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, buffer), limits: limits}
}

// Next reads a command, never an empty one. A ProtocolError, a ForeignError or an error of the stream is final. io.EOF
// means that the stream ended between two commands.
func (r *Reader) Next() (Command, error) {
	for {
		r.release()
		first, err := r.in.ReadByte()
		if err != nil {
			return Command{}, err
		}
		var excess *Excess
		if first == '*' {
			excess, err = r.multibulk()
		} else if err = r.in.UnreadByte(); err == nil {
			err = r.inline()
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Command{}, err
		}
		if len(r.args) > 0 || excess != nil {
			return Command{Args: r.args, Excess: excess}, nil
		}
	}
}

// release makes the memory of the last command free for the next one, and gives back what is large.
func (r *Reader) release() {
	if cap(r.block) > smallBlock {
		r.block = nil
	}
	if cap(r.args)*argumentOverhead > smallBlock {
		r.args = nil
	}
	clear(r.args) // other blocks
	r.block, r.args = r.block[:0], r.args[:0]
	if r.held > 0 {
		r.grow(-r.held)
	}
}

func (r *Reader) grow(bytes int) {
	r.held += bytes
	if r.Grown != nil && bytes != 0 {
		r.Grown(bytes)
	}
}

// add ends the argument that begins at a position of the block.
func (r *Reader) add(start int) {
	before := cap(r.args)
	r.args = append(r.args, r.block[start:len(r.block):len(r.block)])
	if grown := cap(r.args) - before; grown > 0 && cap(r.args)*argumentOverhead > smallBlock {
		r.grow(grown * argumentOverhead)
	}
}

// room sees to a block with room for so many bytes more, or for the first of them, and returns for how many.
func (r *Reader) room(bytes int) int {
	if free := cap(r.block) - len(r.block); free >= bytes {
		return bytes
	}
	size := min(max(bytes, 2*cap(r.block), smallBlock), largeBlock)
	r.block = make([]byte, 0, size)
	if size > smallBlock {
		r.grow(size)
	}
	return min(bytes, size)
}

func (r *Reader) multibulk() (*Excess, error) {
	count, err := r.header("mbulk count", invalidCount)
	if err != nil {
		return nil, err
	}
	switch {
	case count > maxArguments:
		return nil, invalidCount
	case count > strangerArguments && r.Stranger:
		return nil, ProtocolError("unauthenticated multibulk length")
	}
	var excess *Excess
	total := 0
	for i := range max(count, 0) {
		kind, err := r.in.ReadByte()
		if err != nil {
			return nil, err
		}
		if kind != '$' {
			return nil, ProtocolError(fmt.Sprintf("expected '$', got %q", kind))
		}
		size, err := r.header("bulk count", invalidSize)
		if err != nil {
			return nil, err
		}
		if size < 0 || size > maxBulk {
			return nil, invalidSize
		}
		if size > strangerBulk && r.Stranger {
			return nil, ProtocolError("unauthenticated bulk length")
		}
		total += size + argumentOverhead
		if excess == nil && size > r.limits.ArgumentBytes {
			excess = &Excess{Argument: i, Bytes: size, Limit: r.limits.ArgumentBytes}
		}
		if excess == nil && total > r.limits.CommandBytes {
			excess = &Excess{Argument: -1, Bytes: total, Limit: r.limits.CommandBytes}
		}
		if err := r.bulk(size, excess == nil); err != nil {
			return nil, err
		}
	}
	if excess != nil && excess.Argument < 0 {
		excess.Bytes = total
	}
	return excess, nil
}

// bulk reads an argument and the line end behind it.
func (r *Reader) bulk(size int, keep bool) error {
	if !keep {
		if _, err := r.in.Discard(size); err != nil {
			return err
		}
	} else if err := r.keep(size); err != nil {
		return err
	}
	// Redis trusts the two bytes behind a bulk; a wrong length is found sooner if they are looked at.
	for _, want := range []byte("\r\n") {
		got, err := r.in.ReadByte()
		if err != nil {
			return err
		}
		if got != want {
			return ProtocolError("expected a line end behind a bulk string")
		}
	}
	return nil
}

// keep reads an argument into memory.
func (r *Reader) keep(size int) error {
	arriving := r.room(size)
	start := len(r.block)
	for {
		from := len(r.block)
		r.block = r.block[:start+arriving]
		if _, err := io.ReadFull(r.in, r.block[from:]); err != nil {
			return err
		}
		if arriving == size {
			r.add(start)
			return nil
		}
		// The block is this argument's alone, and it is full.
		arriving = min(2*arriving, size)
		r.grow(arriving - cap(r.block))
		block := make([]byte, len(r.block)-start, arriving)
		copy(block, r.block[start:])
		r.block, start = block, 0
	}
}

// header reads the number of a header line, up to its line end.
func (r *Reader) header(what string, invalid ProtocolError) (int, error) {
	line, err := r.in.ReadSlice('\n')
	if len(line) > maxDigits+len("\r\n") {
		return 0, ProtocolError("too big " + what + " string")
	}
	if err != nil {
		return 0, err
	}
	number, ended := bytes.CutSuffix(line, []byte("\r\n"))
	n, err := strconv.Atoi(string(number))
	if err != nil || !ended || number[0] == '+' {
		return 0, invalid
	}
	return n, nil
}
