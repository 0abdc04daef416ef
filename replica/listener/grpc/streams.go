package grpc

import (
	"context"
	"encoding/binary"
	"sync"

	"google.golang.org/grpc/tap"
)

// calls is what the calls of a connection of gRPC hold before a handler has it: messages that have not ended, and those
// that no handler has taken. The library tells neither, so that it is read off the frames that pass.
type calls struct {
	caller *caller

	mu       sync.Mutex
	open     map[uint32]*stream // by stream; nil: the connection is closed
	last     uint32             // the newest stream
	arriving *stream            // what the newest frame is of, or nil
	in, out  frames
}

// stream is the one of HTTP/2 that carries a call.
type stream struct {
	calls *calls
	ended bool
	held  int // streamOverhead, and what is counted below

	answers int // bytes of answers that the library was given and has not sent

	frame      int // what the newest frame of data takes
	data       int // how many bytes of messages that frame still has
	padded     bool
	prefix     [5]byte // of a message: whether it is compressed, and its length
	prefixed   int
	left       int   // how much of the message is to come
	unfinished int   // what the message that has not ended takes
	whole      []int // what each message takes that no one has taken
	room       [4]int
}

const (
	// streamOverhead is what a call holds that sends nothing: a goroutine with its stack, its header, and itself.
	streamOverhead = 8 << 10
	// messageOverhead is what is noted of a message that no one has taken.
	messageOverhead = 16
)

func newCalls(c *caller) *calls {
	return &calls{caller: c, open: map[uint32]*stream{}, in: frames{preface: clientPreface}}
}

// received follows what the client sends. The library reads a frame whole before it acts on it, and no more.
func (c *calls) received(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 && c.open != nil {
		begun, payload, rest := c.in.next(p)
		p = rest
		if begun.found {
			c.begin(begun)
		}
		if len(payload) > 0 && c.arriving != nil {
			c.arriving.follow(payload)
		}
	}
}

func (c *calls) begin(f frame) {
	switch f.kind {
	case frameHeaders:
		if f.stream > c.last {
			c.last = f.stream
			a := &stream{calls: c}
			a.whole = a.room[:0]
			a.hold(streamOverhead)
			c.open[f.stream] = a
		}
		c.arriving = c.open[f.stream]
	case frameData:
		c.arriving = c.open[f.stream]
		if c.arriving != nil {
			c.arriving.begin(f)
		}
	case frameReset:
		c.end(f.stream)
	}
}

// sent follows what the server sends: it ends every call that the client does not.
func (c *calls) sent(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 && c.open != nil {
		begun, _, rest := c.out.next(p)
		p = rest
		if begun.found && begun.kind == frameData {
			c.open[begun.stream].answered(begun.length)
		}
		if begun.found && (begun.kind == frameReset || begun.kind == frameHeaders && begun.flags&flagEndStream != 0) {
			c.end(begun.stream)
		}
	}
}

func (c *calls) end(stream uint32) {
	if a := c.open[stream]; a != nil {
		a.hold(-a.held)
		a.ended = true
		delete(c.open, stream)
	}
}

// close ends all calls.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for stream := range c.open {
		c.end(stream)
	}
	c.open, c.arriving = nil, nil
}

// refusal is what tells the client that calls whose message has not ended are refused; nothing, amid a frame.
func (c *calls) refusal() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var p []byte
	for stream, a := range c.open {
		if a.unfinished > 0 && c.out.between() {
			p = append(p, reset(stream)...)
		}
	}
	return p
}

// begin notes a frame of data.
func (a *stream) begin(f frame) {
	a.frame, a.data, a.padded = frameBytes(f.length), f.length, f.flags&flagPadded != 0
	a.unfinished += a.frame
	a.hold(a.frame)
}

// frameBytes is what the library takes for so many bytes of data: a buffer of one of a few sizes, and what is noted of
// it.
func frameBytes(length int) int {
	const overhead = 128
	switch {
	case length == 0:
		return 0
	case length <= 1<<10:
		return length + overhead
	case length <= 4<<10:
		return 4<<10 + overhead
	}
	return largestFrameBytes + overhead
}

// follow finds in data where messages end. A frame counts for the last message that has a part of it.
func (a *stream) follow(p []byte) {
	if a.padded {
		a.padded = false
		a.data -= 1 + int(p[0])
		p = p[1:]
	}
	for p = p[:max(0, min(len(p), a.data))]; len(p) > 0; {
		n := copy(a.prefix[a.prefixed:], p)
		a.prefixed += n
		p, a.data = p[n:], a.data-n
		if a.prefixed < len(a.prefix) {
			return
		}
		if n > 0 {
			a.left = int(binary.BigEndian.Uint32(a.prefix[1:]))
		}
		n = min(a.left, len(p))
		p, a.data, a.left = p[n:], a.data-n, a.left-n
		if a.left > 0 {
			return
		}
		next := 0
		if a.data > 0 {
			next = a.frame
		}
		a.whole = append(a.whole, a.unfinished-next+messageOverhead)
		a.unfinished, a.prefixed = next, 0
		a.hold(messageOverhead)
	}
}

// taken notes that a handler has the oldest message: what it holds is counted as an operation's.
func (a *stream) taken() {
	if a == nil {
		return
	}
	a.calls.mu.Lock()
	defer a.calls.mu.Unlock()
	if !a.ended && len(a.whole) > 0 {
		a.hold(-a.whole[0])
		if a.whole = a.whole[1:]; len(a.whole) == 0 {
			a.whole = a.room[:0] // mostly there is no more
		}
	}
}

// answer notes that the library is given an answer of so many bytes, which it holds until it can send them.
func (a *stream) answer(bytes int) {
	if a == nil {
		return
	}
	a.calls.mu.Lock()
	defer a.calls.mu.Unlock()
	if !a.ended {
		a.answers += bytes
		a.hold(bytes)
	}
}

// answered notes that so many bytes were sent.
func (a *stream) answered(bytes int) {
	if a != nil {
		bytes = min(bytes, a.answers)
		a.answers -= bytes
		a.hold(-bytes)
	}
}

func (a *stream) hold(n int) {
	a.held += n
	a.calls.caller.hold(n)
}

type callKey struct{}

// tagCall gives a call's context the call. It runs as soon as the call's header has been read, before anything else is.
func tagCall(ctx context.Context, _ *tap.Info) (context.Context, error) {
	c := callerOf(ctx).calls
	c.mu.Lock()
	defer c.mu.Unlock()
	return context.WithValue(ctx, callKey{}, c.arriving), nil
}

// callOf is the call of a context, or nil.
func callOf(ctx context.Context) *stream {
	a, _ := ctx.Value(callKey{}).(*stream)
	return a
}
