package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/listener/redis/resp"
)

// connection is the connection of one Redis client. Its reader parses commands and puts them into the queue, which
// submits them; its writer sends the replies in the order of the commands.
type connection struct {
	server *Server
	conn   net.Conn
	id     int64
	since  time.Time
	in     *resp.Reader
	client clientState // the reader's
	calls  *queue
	memory *operation.Account // the queue's
}

// clientState is what a client has chosen for its connection.
type clientState struct {
	version       resp.Version
	authenticated bool
	name          string
	library       string
	libraryVer    string
	readOnly      bool // READONLY: reads may be stale
	transaction   transaction
}

func newConnection(server *Server, conn net.Conn, id int64) *connection {
	c := &connection{server: server, conn: conn, id: id, since: time.Now()}
	c.calls = newQueue(&server.options, &server.metrics)
	c.memory = server.options.Memory.Open("redis", conn.RemoteAddr(), c.abandon)
	c.calls.memory = c.memory
	c.memory.Hold(connectionOverhead) // from now on it may be abandoned
	c.in = resp.NewReader(flushingReader{c}, server.limits)
	c.in.Grown = c.calls.hold
	c.resetClient()
	return c
}

// connectionOverhead is what a connection holds that does nothing: its reader, two goroutines with their stacks, and
// itself.
const connectionOverhead = resp.Overhead + 12<<10

func (c *connection) resetClient() {
	c.endTransaction()
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
	c.calls.close()
	<-written
	c.calls.end()
}

// read parses commands and adds them to the queue until the client is done or can't be understood.
func (c *connection) read() {
	for {
		in, err := c.in.Next()
		if err != nil {
			c.readFailed(err)
			return
		}
		k := c.newCall(in)
		last := k.hangUp // the writer owns the call from now on
		if !c.calls.add(k) || last {
			return
		}
	}
}

// readFailed ends the reading of a connection: its client is gone, or can't be understood.
func (c *connection) readFailed(err error) {
	var protocol resp.ProtocolError
	var foreign resp.ForeignError
	if errors.As(err, &protocol) {
		k := c.calls.newCall()
		k.hangUp = true
		k.fail("ERR " + protocol.Error())
		c.calls.add(k)
	} else if errors.As(err, &foreign) {
		c.server.attacked(c.conn.RemoteAddr(), foreign)
	} else if !ended(err) {
		c.server.options.Log.Info("Redis client lost", zap.Stringer("client", c.conn.RemoteAddr()), zap.Error(err))
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
	f.c.calls.flush()
	if !f.c.memory.Wait() {
		return 0, net.ErrClosed
	}
	return f.c.conn.Read(p)
}

// batchBytes is how many bytes of replies go out in one write, about.
const batchBytes = 64 << 10

// write sends replies, in order, until the last one or until the client can't be reached.
func (c *connection) write() error {
	for {
		first, last, size := c.calls.take()
		if first == nil {
			return nil
		}
		buffer := c.server.buffers.Get().(*[]byte)
		out := *buffer
		for k := first; ; k = k.next {
			reply, outcome := k.appendReply(out, c.server.options.Identity.Protocol)
			c.server.count(k.command, outcome)
			out = reply
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
		hangUp := last.hangUp
		c.calls.sent(first, last, size)
		if hangUp {
			return nil
		}
	}
}

// stopReading makes the reader end as if the client had; what is in flight is still answered.
func (c *connection) stopReading() {
	if err := c.conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		c.abandon()
	}
}

// abandon closes the connection as it is.
func (c *connection) abandon() {
	c.calls.breakOff()
	c.memory.Leave()
	c.conn.Close()
}
