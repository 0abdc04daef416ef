package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/server/resp"
)

// connection is one Redis client. Its reader parses commands and submits them as they come; its writer
// sends the replies in the order of the commands. Commands on one key wait for one another.
type connection struct {
	server *Redis
	conn   net.Conn
	id     int64
	since  time.Time
	in     *resp.Reader
	client clientState // the reader's

	mu         sync.Mutex
	ready      sync.Cond // the writer waits for it
	room       sync.Cond // the reader waits for it
	head, tail *call     // calls without a sent reply, in order
	free       *call
	idle       int              // calls in free
	memory     *account         // what all of this holds
	pending    int              // steps of the calls in the list that are not answered
	unsent     int              // bytes that complete calls hold
	last       map[string]*step // the last step of each key that has one unanswered
	session    session
	closing    bool // no more calls will come
	broken     bool // no more replies can be sent
	over       bool // nobody reads or writes any more; operations may go on
}

// clientState is what a client has chosen for its connection.
type clientState struct {
	version       resp.Version
	authenticated bool
	name          string
	library       string
	libraryVer    string
	refusing      bool // MULTI was refused: so is everything up to EXEC
	readOnly      bool // READONLY: reads may be stale
}

func newConnection(server *Redis, conn net.Conn, id int64) *connection {
	c := &connection{server: server, conn: conn, id: id, since: time.Now(), last: map[string]*step{}}
	c.ready.L, c.room.L = &c.mu, &c.mu
	c.memory = server.options.Memory.open("redis", conn.RemoteAddr(), c.abandon)
	c.memory.hold(connectionOverhead)
	c.in = resp.NewReader(flushingReader{c}, server.limits)
	c.in.Grown = c.hold
	c.resetClient()
	return c
}

// connectionOverhead is what a connection holds that does nothing: its reader, two goroutines with their stacks, and itself.
const connectionOverhead = resp.Overhead + 12<<10

// hold notes that the connection holds n bytes more, or less.
func (c *connection) hold(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory.hold(n)
}

func (c *connection) resetClient() {
	c.client = clientState{version: 2}
	c.authenticate(c.server.options.Password == "")
}

// authenticate notes whether the client may be served.
func (c *connection) authenticate(done bool) { c.client.authenticated, c.in.Stranger = done, !done }

// serve runs the connection to its end.
func (c *connection) serve() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		if err := c.write(); err != nil {
			c.server.options.Log.Info("Redis client dropped: its replies can't be written",
				zap.Stringer("client", c.conn.RemoteAddr()), zap.Error(err))
		}
		c.abandon()
	}()
	c.read()
	c.mu.Lock()
	c.closing = true
	c.ready.Signal()
	c.mu.Unlock()
	<-written
	c.mu.Lock()
	defer c.mu.Unlock()
	left := 0
	for k := c.head; k != nil; k = k.next {
		if k.remaining > 0 {
			left += k.size
		}
	}
	c.over = true
	c.session.past, c.session.size = register.Past{}, 0
	c.memory.end(left)
}

// read parses and dispatches commands until the client is done or can't be understood.
func (c *connection) read() {
	for {
		command, err := c.in.Next()
		if err != nil {
			var protocol resp.ProtocolError
			var foreign resp.ForeignError
			if errors.As(err, &protocol) {
				c.hangUp("ERR " + protocol.Error())
			} else if errors.As(err, &foreign) {
				c.server.attacked(c.conn.RemoteAddr(), foreign)
			} else if !ended(err) {
				c.server.options.Log.Info("Redis client lost", zap.Stringer("client", c.conn.RemoteAddr()), zap.Error(err))
			}
			return
		}
		if !c.dispatch(command) {
			return
		}
	}
}

// ended reports whether err is an ordinary end of a connection, by either side.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded)
}

// flushingReader wakes the writer before it waits for the client, so that replies made at once leave
// together at the end of a pipeline instead of one by one. It reads nothing while clients hold more than they may.
type flushingReader struct{ c *connection }

func (f flushingReader) Read(p []byte) (int, error) {
	f.c.mu.Lock()
	f.c.ready.Signal()
	f.c.mu.Unlock()
	if !f.c.memory.wait() {
		return 0, net.ErrClosed
	}
	return f.c.conn.Read(p)
}

// newCall returns an empty call for a command that is being parsed.
func (c *connection) newCall(command *command) *call {
	c.mu.Lock()
	k := c.free
	if k != nil {
		c.free, k.next = k.next, nil
		c.idle--
		c.memory.hold(-k.bare())
	}
	c.mu.Unlock()
	if k == nil {
		k = &call{conn: c}
	}
	k.command, k.version = command, c.client.version
	return k
}

// enqueue puts a call in line for its reply and starts its steps, each as soon as no earlier one has the
// same key. It waits for room. It reports false if the connection is broken.
func (c *connection) enqueue(k *call) bool {
	if !c.memory.wait() {
		return false
	}
	options := &c.server.options
	k.remaining = len(k.steps)
	k.size = k.asked()
	if k.remaining > 0 {
		k.deadline = time.Now().Add(options.Timeout)
	}
	c.mu.Lock()
	for (c.pending >= options.MaxInFlight || c.unsent >= options.MaxOutputBytes) && !c.broken {
		c.ready.Signal()
		c.room.Wait()
	}
	if c.broken {
		c.mu.Unlock()
		return false
	}
	if c.tail == nil {
		c.head = k
	} else {
		c.tail.next = k
	}
	c.tail = k
	c.memory.hold(k.size)
	if k.remaining == 0 {
		c.unsent += k.held()
		c.mu.Unlock()
		return true
	}
	c.pending += k.remaining
	// A step that has to wait is started by the one before it; the count keeps the call, and with it its
	// steps, from being reused until this loop is over.
	k.remaining++
	for i := range k.steps {
		s := &k.steps[i]
		key := c.chain(s)
		before := c.last[key]
		c.last[key] = s
		if before != nil {
			before.behind = s
			continue
		}
		c.mu.Unlock()
		s.start()
		c.mu.Lock()
	}
	c.completed(k)
	c.mu.Unlock()
	return true
}

// chain names the line that a step stands in: its key's, or the connection's if all commands are ordered.
func (c *connection) chain(s *step) string {
	if c.server.options.Ordered {
		return ""
	}
	return s.op.Key
}

// stepAnswered records a step's answer and returns the step that waited for it.
func (c *connection) stepAnswered(s *step, r register.Result) (next *step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory.leaving.Load() && !c.broken {
		c.broken = true // before the answer is dropped, which nobody may take for one
		c.ready.Signal()
	}
	if !c.broken {
		s.result = r
		s.call.size += len(r.Value)
		c.memory.hold(len(r.Value))
	}
	next = c.stepEnded(s)
	for c.broken && next != nil { // nobody will read the answers: what has not started ends with what it waited for
		next = c.stepEnded(next)
	}
	return next
}

// stepEnded notes that a step is over, under the lock, and returns the one that waited for it.
func (c *connection) stepEnded(s *step) (next *step) {
	next, s.behind = s.behind, nil
	if key := c.chain(s); c.last[key] == s {
		delete(c.last, key)
	}
	c.pending--
	c.room.Signal()
	c.completed(s.call)
	return next
}

// completed counts down what a call waits for, under the lock.
func (c *connection) completed(k *call) {
	if k.remaining--; k.remaining > 0 {
		return
	}
	if c.over {
		c.memory.hold(-k.size)
		return
	}
	c.unsent += k.held()
	if c.head == k {
		c.ready.Signal()
	}
}

// batchBytes is how many bytes of replies go out in one write, about.
const batchBytes = 64 << 10

// write sends replies, in order, until the last one or until the client can't be reached.
func (c *connection) write() error {
	for {
		first, last, held := c.complete()
		if first == nil {
			return nil
		}
		buffer := c.server.buffers.Get().(*[]byte)
		out := *buffer
		for k := first; ; k = k.next {
			out = k.appendReply(out)
			if k == last {
				break
			}
		}
		if err := c.conn.SetWriteDeadline(time.Now().Add(c.server.options.WriteTimeout)); err != nil {
			return fmt.Errorf("setting a deadline: %w", err)
		}
		if _, err := c.conn.Write(out); err != nil {
			if ended(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return err
		}
		if cap(out) <= 4*batchBytes {
			*buffer = out[:0]
			c.server.buffers.Put(buffer)
		}
		if c.recycle(first, last, held) {
			return nil
		}
	}
}

// complete waits for calls at the head of the list that are complete and takes them off, up to about
// batchBytes. It returns none when there is nothing more to write.
func (c *connection) complete() (first, last *call, held int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.broken && (c.head == nil || c.head.remaining > 0) && !(c.head == nil && c.closing) {
		c.ready.Wait()
	}
	if c.broken || c.head == nil {
		return nil, nil, 0
	}
	first = c.head
	for c.head != nil && c.head.remaining == 0 && held < batchBytes && (last == nil || !last.hangUp) {
		last = c.head
		held += last.held()
		c.head = last.next
	}
	if c.head == nil {
		c.tail = nil
	}
	c.memory.hold(held) // the replies are written into a buffer
	return first, last, held
}

// keptCalls is how many calls a connection keeps for its next commands.
const keptCalls = 64

// recycle takes calls back whose replies are sent. It reports whether the last one ends the connection.
func (c *connection) recycle(first, last *call, held int) (hangUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hangUp = last.hangUp
	freed := 0
	for k, end := first, false; !end; {
		next := k.next
		end = k == last
		freed += k.size
		k.reset()
		if c.idle < keptCalls {
			k.next, c.free = c.free, k
			c.idle++
			freed -= k.bare()
		}
		k = next
	}
	c.memory.hold(-freed - held)
	c.unsent -= held
	c.room.Signal()
	return hangUp
}

// stopReading makes the reader end as if the client had; what is in flight is still answered.
func (c *connection) stopReading() {
	if err := c.conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		c.abandon()
	}
}

// abandon closes the connection as it is.
func (c *connection) abandon() {
	c.mu.Lock()
	c.broken = true
	c.ready.Signal()
	c.room.Signal()
	c.mu.Unlock()
	c.memory.leave()
	c.conn.Close()
}
