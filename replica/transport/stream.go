package transport

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

const (
	// headBytes is the length of the length in front of a frame.
	headBytes = 4
	// helloBytes bounds a frame of somebody who is not known to be a peer yet, and the answer, which may carry a view.
	helloBytes = 1 << 20
	// helloTimeout is how long who calls may take to say who it is, and who is called to answer.
	helloTimeout = 5 * time.Second
	// silence is how long the other end's machine may acknowledge nothing of what was sent before the connection counts
	// as broken, and about how long it may be gone before that is noticed where nothing is sent.
	silence = 15 * time.Second
	// pieceBytes of a frame must be taken by the other end within that time, too.
	pieceBytes = 256 << 10
	// readBytes is how much is read from a connection at a time.
	readBytes = 32 << 10
	// keptBytes is the size of the buffers that are kept from one frame to the next.
	keptBytes = 2 * frameBytes
)

// stream is a connection that carries frames, each behind its length. The connection may be of any kind that keeps
// bytes whole and in order.
type stream struct {
	connection net.Conn
	from       *bufio.Reader
	in, out    []byte          // buffers of the latest frame
	head       [headBytes]byte // scratch
	patience   time.Duration
	end        func() bool // stops waiting for the end of the context
}

// newStream returns a stream over a connection, which ends with the context. It must be closed.
func newStream(ctx context.Context, connection net.Conn) *stream {
	keepAlive(connection)
	return &stream{
		connection: connection, from: bufio.NewReaderSize(connection, readBytes), patience: silence,
		end: context.AfterFunc(ctx, func() { _ = connection.Close() }),
	}
}

// keepAlive has the system notice that the other end's machine is gone, as far as the system can. Its probes stand
// still while anything is under way, which it repeats for a quarter of an hour: that has a bound of its own.
func keepAlive(connection net.Conn) {
	tcp := tcpOf(connection)
	if tcp == nil {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 3, Count: 2})
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = boundRepeats(int(fd), silence) })
	}
}

// tcpOf is the connection beneath, such as that of TLS; nil: it is none of TCP.
func tcpOf(connection net.Conn) *net.TCPConn {
	for {
		inner, ok := connection.(interface{ NetConn() net.Conn })
		if !ok {
			tcp, _ := connection.(*net.TCPConn)
			return tcp
		}
		connection = inner.NetConn()
	}
}

func (s *stream) close() {
	s.end()
	_ = s.connection.Close()
}

// send writes a frame. Nothing else may send meanwhile.
func (s *stream) send(frame *peerv1.Frame) error {
	size := frame.SizeVT()
	if size > maxFrameBytes {
		return fmt.Errorf("a frame of %d bytes is too long", size)
	}
	s.out = slices.Grow(s.out[:0], headBytes+size)[:headBytes+size]
	binary.BigEndian.PutUint32(s.out, uint32(size))
	if n, err := frame.MarshalToSizedBufferVT(s.out[headBytes:]); err != nil || n != size {
		return cmp.Or(err, errors.New("a message was changed meanwhile"))
	}
	for rest := s.out; len(rest) > 0; {
		piece := rest[:min(len(rest), pieceBytes)]
		if err := s.connection.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
			return err
		}
		if _, err := s.connection.Write(piece); err != nil {
			return err
		}
		rest = rest[len(piece):]
	}
	if cap(s.out) > keptBytes {
		s.out = nil
	}
	return nil
}

// receive reads a frame of at most so many bytes, as it is encoded. It is valid until the next one.
func (s *stream) receive(most int) ([]byte, error) {
	if _, err := io.ReadFull(s.from, s.head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(s.head[:]))
	if size > most {
		return nil, fmt.Errorf("a frame of %d bytes is too long, or none", size)
	}
	if cap(s.in) > keptBytes {
		s.in = nil
	}
	// A frame takes memory as it arrives, not as it says that it will.
	for s.in = s.in[:0]; len(s.in) < size; {
		from, to := len(s.in), min(size, len(s.in)+pieceBytes)
		s.in = slices.Grow(s.in, to-from)[:to]
		if _, err := io.ReadFull(s.from, s.in[from:]); err != nil {
			return nil, fmt.Errorf("a frame that is cut: %w", err)
		}
	}
	return s.in, nil
}

// hello reads the first frame of either end, which has little time for it.
func (s *stream) hello() (*peerv1.Frame, error) {
	frame := &peerv1.Frame{}
	err := s.connection.SetReadDeadline(time.Now().Add(helloTimeout))
	if err == nil {
		var data []byte
		if data, err = s.receive(helloBytes); err == nil {
			err = frame.UnmarshalVT(data)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	return frame, s.connection.SetReadDeadline(time.Time{})
}
