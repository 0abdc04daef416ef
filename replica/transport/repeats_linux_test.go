package transport

import (
	"crypto/tls"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection, whatever lies over it, ends when the other end's machine says nothing for so long.
func TestTheSystemNoticesThatAMachineIsGone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	connection, err := dialTCP(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(t.Context(), tls.Client(connection, nil))
	defer s.close()
	raw, err := connection.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (value int) {
		err := raw.Control(func(fd uintptr) {
			if value, err = unix.GetsockoptInt(int(fd), level, name); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if got := option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); int64(got) != silence.Milliseconds() {
		t.Errorf("what is under way may take %d ms", got)
	}
	idle, interval := option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
	count := option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
	if idle+interval*count != int(silence.Seconds()) || option(unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 0 {
		t.Errorf("%d probes, each %d s, from %d s on", count, interval, idle)
	}
}
