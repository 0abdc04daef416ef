package grpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/test/listenertest"
)

// BenchmarkGRPC sends WRITEs of 16 bytes over loopback, as BenchmarkRedis sends SETs: one at a time on each of many
// connections, or many together; as a call each, or in batches of one stream. The client's own allocations are none.
func BenchmarkGRPC(b *testing.B) {
	for _, method := range []string{"Do", "Pipeline"} {
		for _, shape := range []struct{ connections, pipeline int }{{1, 1}, {16, 1}, {128, 1}, {16, 16}} {
			b.Run(fmt.Sprintf("%s/connections=%d/pipeline=%d", method, shape.connections, shape.pipeline),
				func(b *testing.B) {
					s, err := New(operation.Options{Store: listenertest.NewEcho(b)})
					if err != nil {
						b.Fatal(err)
					}
					listenertest.Load(b, s, shape.connections, shape.pipeline,
						func(conn net.Conn, id int, more func() bool) error {
							c := newRawClient(conn, method)
							if method == "Do" {
								return c.callMany(id, shape.pipeline, more)
							}
							return c.streamMany(id, shape.pipeline, more)
						})
				})
		}
	}
}

// rawClient speaks as much HTTP/2 (RFC 9113) as a call of gRPC takes. It has one buffer each way.
type rawClient struct {
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	headers []byte // of a call, as a block of HPACK (RFC 7541)
	head    [9]byte
	payload []byte
}

// Frames and their flags that only the client needs.
const (
	frameSettings     = 0x4
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	flagAck           = 0x1
	flagEndHeaders    = 0x4
	initialWindow     = 0x4 // a setting
	statusField       = 2   // of a response
)

func newRawClient(conn net.Conn, method string) *rawClient {
	c := &rawClient{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), payload: make([]byte, largestFrameBytes)}
	literal := func(b []byte, text string) []byte { return append(append(b, byte(len(text))), text...) }
	h := []byte{0x83, 0x86} // POST, http
	h = literal(append(h, 0x04), "/georegister.register.v1.Register/"+method)
	h = literal(append(h, 0x01), "benchmark")                       // :authority
	h = literal(append(h, 0x0f, 0x10), "application/grpc")          // content-type
	c.headers = literal(literal(append(h, 0x00), "te"), "trailers") // a name without a number
	c.out = append(c.out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...)
	// Answers are not bounded, neither those of a stream nor all of them.
	c.out = appendFrame(c.out, frameSettings, 0, 0, 6)
	c.out = binary.BigEndian.AppendUint16(c.out, initialWindow)
	c.out = binary.BigEndian.AppendUint32(c.out, math.MaxInt32)
	c.out = appendFrame(c.out, frameWindowUpdate, 0, 0, 4)
	c.out = binary.BigEndian.AppendUint32(c.out, math.MaxInt32-(1<<16-1))
	return c
}

func appendFrame(b []byte, kind, flags byte, stream uint32, length int) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

// call begins a call on a stream.
func (c *rawClient) call(stream uint32) {
	c.out = append(appendFrame(c.out, frameHeaders, flagEndHeaders, stream, len(c.headers)), c.headers...)
}

// send sends a message on a stream.
func (c *rawClient) send(flags byte, stream uint32, message []byte) {
	c.out = append(appendFrame(c.out, frameData, flags, stream, 5+len(message)), 0) // not compressed
	c.out = append(binary.BigEndian.AppendUint32(c.out, uint32(len(message))), message...)
}

// flush writes what is to be sent.
func (c *rawClient) flush() error {
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err
}

// next reads a frame of a call, and answers those before it that are not.
func (c *rawClient) next() (kind, flags byte, payload []byte, err error) {
	for {
		if _, err = io.ReadFull(c.in, c.head[:]); err != nil {
			return 0, 0, nil, err
		}
		kind, flags = c.head[3], c.head[4]
		payload = c.payload[:int(c.head[0])<<16|int(c.head[1])<<8|int(c.head[2])]
		if _, err = io.ReadFull(c.in, payload); err != nil {
			return 0, 0, nil, err
		}
		switch {
		case kind == frameData || kind == frameHeaders:
			return kind, flags, payload, nil
		case kind == frameReset || kind == frameGoAway:
			return 0, 0, nil, fmt.Errorf("the server refuses: frame %d: %q", kind, payload)
		case (kind == frameSettings || kind == framePing) && flags&flagAck == 0:
			answered := payload
			if kind == frameSettings {
				answered = nil
			}
			c.out = append(appendFrame(c.out, kind, flagAck, 0, len(answered)), answered...)
			if err = c.flush(); err != nil {
				return 0, 0, nil, err
			}
		}
	}
}

func request(id, i int) *registerv1.Request {
	return &registerv1.Request{
		Tag: uint64(i), Kind: registerv1.Kind_WRITE, Key: fmt.Appendf(nil, "k%03d-%03d", id, i), Present: true,
		Value: []byte("0123456789abcdef"),
	}
}

// callMany makes unary calls, so many at a time.
func (c *rawClient) callMany(id, together int, more func() bool) error {
	messages := make([][]byte, together)
	for i := range messages {
		var err error
		if messages[i], err = request(id, i).MarshalVT(); err != nil {
			return err
		}
	}
	for stream := uint32(1); more(); {
		for _, message := range messages {
			c.call(stream)
			c.send(flagEndStream, stream, message)
			stream += 2
		}
		if err := c.flush(); err != nil {
			return err
		}
		for ended := 0; ended < together; {
			kind, flags, payload, err := c.next()
			if err != nil {
				return err
			}
			if kind == frameData && !isOK(payload[min(5, len(payload)):]) {
				return fmt.Errorf("answered %q", payload)
			}
			if kind == frameHeaders && flags&flagEndStream != 0 {
				ended++
			}
		}
	}
	return nil
}

// streamMany sends batches of operations on one stream.
func (c *rawClient) streamMany(id, together int, more func() bool) error {
	var batch registerv1.Requests
	for i := range together {
		batch.Requests = append(batch.Requests, request(id, i))
	}
	message, err := batch.MarshalVT()
	if err != nil {
		return err
	}
	const stream = 1
	c.call(stream)
	var arrived []byte
	for more() {
		c.send(0, stream, message)
		if err := c.flush(); err != nil {
			return err
		}
		for answered := 0; answered < together; {
			kind, flags, payload, err := c.next()
			if err != nil {
				return err
			}
			if kind == frameHeaders {
				if flags&flagEndStream != 0 {
					return errors.New("the stream ended")
				}
				continue
			}
			for arrived = append(arrived, payload...); len(arrived) >= 5; {
				end := 5 + int(binary.BigEndian.Uint32(arrived[1:]))
				if len(arrived) < end {
					break
				}
				n, err := countAnswers(arrived[5:end])
				if err != nil {
					return err
				}
				answered += n
				arrived = arrived[:copy(arrived, arrived[end:])]
			}
		}
	}
	return nil
}

// countAnswers counts the responses of a message, all of which are to be OK.
func countAnswers(message []byte) (n int, err error) {
	for len(message) > 0 {
		_, _, tag := protowire.ConsumeTag(message)
		answer, length := protowire.ConsumeBytes(message[max(tag, 0):])
		if tag < 0 || length < 0 || !isOK(answer) {
			return 0, fmt.Errorf("answered %q", message)
		}
		message = message[tag+length:]
		n++
	}
	return n, nil
}

// isOK reports whether an encoded response has the status OK.
func isOK(answer []byte) bool {
	for len(answer) > 0 {
		number, kind, tag := protowire.ConsumeTag(answer)
		length := protowire.ConsumeFieldValue(number, kind, answer[max(tag, 0):])
		if tag < 0 || length < 0 {
			return false
		}
		if number == statusField {
			return answer[tag] == byte(registerv1.Status_OK)
		}
		answer = answer[tag+length:]
	}
	return false
}
