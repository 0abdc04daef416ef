package transport

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/test/listenertest"
)

// fixed is a connection on which everything has arrived already.
type fixed struct {
	net.Conn
	*bytes.Reader
}

func (f fixed) Read(p []byte) (int, error)      { return f.Reader.Read(p) }
func (f fixed) SetReadDeadline(time.Time) error { return nil }
func (f fixed) Close() error                    { return nil }

func arrived(t testing.TB, data []byte) *stream {
	s := newStream(context.Background(), fixed{Reader: bytes.NewReader(data)})
	t.Cleanup(s.close)
	return s
}

func headed(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// secure is a listener and a way to call it with TLS.
func secure(t *testing.T) (*tls.Config, *tls.Config) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"member"},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: private}}},
		&tls.Config{RootCAs: roots, ServerName: "member"}
}

// Members talk over whatever connections they are given: frames of all sizes arrive whole.
func TestFramesTravelOverTLS(t *testing.T) {
	accepts, calls := secure(t)
	p := newPair(t, func(_ int, o *Options) {
		o.Listener = tls.NewListener(o.Listener, accepts)
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&tls.Dialer{Config: calls}).DialContext(ctx, "tcp", address)
		}
	})
	sizes := []int{0, 1, readBytes, pieceBytes - 1, pieceBytes, 3 * keptBytes, 7}
	for i, size := range sizes {
		p.ends[0].Send(2, []*peerv1.Message{{Op: uint64(i), Value: bytes.Repeat([]byte{byte(i)}, size)}})
	}
	listenertest.WaitUntil(t, "all arrive", func() bool { return len(p.inboxes[1].ops()) == len(sizes) })
	for _, m := range p.inboxes[1].messages {
		if !bytes.Equal(m.Value, bytes.Repeat([]byte{byte(m.Op)}, sizes[m.Op])) {
			t.Errorf("message %d of %d bytes arrived with %d", m.Op, sizes[m.Op], len(m.Value))
		}
	}
}

// Whatever a stranger says, it is hung up on, and those who know each other talk on.
func TestStrangersAreHungUpOn(t *testing.T) {
	p := newPair(t, nil)
	hello, err := (&peerv1.Frame{Hello: p.ends[0].hello(2)}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string][]byte{
		"nothing":                   nil,
		"another protocol":          []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"half a length":             {0, 0},
		"a frame that is too long":  binary.BigEndian.AppendUint32(nil, helloBytes+1),
		"a hello that is cut":       headed(hello)[:len(hello)],
		"no hello":                  headed(nil),
		"garbage":                   headed([]byte{0xff, 0xff, 0xff}),
		"garbage behind a hello":    slices.Concat(headed(hello), headed([]byte{0x13, 0xff, 0xff})),
		"too much behind a hello":   slices.Concat(headed(hello), binary.BigEndian.AppendUint32(nil, maxFrameBytes+1)),
		"messages of a wrong field": slices.Concat(headed(hello), headed([]byte{2 << 3, 1})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := dialTCP(t.Context(), p.view.Members[1].Address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = connection.Close() }()
			if err := connection.SetDeadline(time.Now().Add(listenertest.Bound)); err != nil {
				t.Fatal(err)
			}
			_, _ = connection.Write(says) // it may be hung up on already
			if _, err := io.Copy(io.Discard, connection); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it is listened to")
			}
			op := uint64(len(name)) << 32
			listenertest.WaitUntil(t, "a peer is heard", func() bool {
				op++
				p.ends[0].Send(2, []*peerv1.Message{{Op: op}})
				return slices.Contains(p.inboxes[1].ops(), op-1)
			})
		})
	}
}

// Connections that say nothing are bounded in number: the oldest are closed, the log says so, and who says who it is
// is heard, however many do not.
func TestStrangersAreBounded(t *testing.T) {
	logged, logs := observer.New(zap.WarnLevel)
	p := newPair(t, func(i int, o *Options) {
		if i == 1 {
			o.Logger = zap.New(logged)
		}
	})
	hears := func(op uint64) {
		listenertest.WaitUntil(t, "a peer is heard", func() bool {
			p.ends[0].Send(2, []*peerv1.Message{{Op: op}})
			return slices.Contains(p.inboxes[1].ops(), op)
		})
	}
	hears(1)
	const more = 20
	all := make([]net.Conn, mostStrangers+2*strangersByMember+more)
	for i := range all {
		connection, err := dialTCP(t.Context(), p.view.Members[1].Address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		all[i] = connection
	}
	begun := time.Now()
	closed := 0
	for i, connection := range all {
		within := time.Now() // the younger ones are not waited for
		if i < more {
			within = begun.Add(listenertest.Bound)
		}
		if err := connection.SetReadDeadline(within); err != nil {
			t.Fatal(err)
		}
		if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if took := time.Since(begun); took < helloTimeout && closed != more || closed < more {
		t.Errorf("of %d connections, %d are closed after %s, of which %d were too many", len(all), closed, took, more)
	}
	if n := logs.FilterMessageSnippet("don't say who they are").Len(); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	hears(2)
}

// A frame takes no more memory than has arrived of it.
func TestALengthAloneTakesNoMemory(t *testing.T) {
	s := arrived(t, append(binary.BigEndian.AppendUint32(nil, maxFrameBytes), make([]byte, 1000)...))
	if _, err := s.receive(maxFrameBytes); !errors.Is(err, io.ErrUnexpectedEOF) || cap(s.in) > 2*pieceBytes {
		t.Errorf("%d bytes are taken for a frame of which 1000 came, %v", cap(s.in), err)
	}
}

// Who takes nothing of what it is sent loses its connection, in the middle of a frame too.
func TestAPeerThatTakesNothing(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	s := newStream(t.Context(), here)
	defer s.close()
	s.patience = 10 * time.Millisecond
	taken := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(there, make([]byte, pieceBytes+1)) // the first piece, and no more
		taken <- err
	}()
	err := s.send(&peerv1.Frame{Messages: []*peerv1.Message{{Value: make([]byte, 3*pieceBytes)}}})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it is sent to: %v", err)
	}
	if err := <-taken; err != nil {
		t.Error(err)
	}
}

func TestAFrameThatIsTooLongIsNotSent(t *testing.T) {
	s := arrived(t, nil)
	err := s.send(&peerv1.Frame{Messages: []*peerv1.Message{{Value: make([]byte, maxFrameBytes)}}})
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

// FuzzReceive shows that whatever arrives is read as frames in their order, none of them longer than allowed, or
// refused.
func FuzzReceive(f *testing.F) {
	f.Add(slices.Concat(headed([]byte("a")), headed(nil), headed(bytes.Repeat([]byte("b"), 300))), 200)
	f.Add(headed([]byte("whole"))[:6], 1<<20)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, maxFrameBytes)
	f.Fuzz(func(t *testing.T, data []byte, most int) {
		s := arrived(t, data)
		for rest := data; ; {
			frame, err := s.receive(most)
			if err != nil {
				if len(rest) < headBytes {
					return
				}
				if size := int(binary.BigEndian.Uint32(rest)); size <= most && size <= len(rest)-headBytes {
					t.Fatalf("a frame of %d bytes is refused: %v", size, err)
				}
				return
			}
			if len(frame) > most || !bytes.HasPrefix(rest, headed(frame)) {
				t.Fatalf("%d bytes are read that did not come", len(frame))
			}
			rest = rest[headBytes+len(frame):]
		}
	})
}
