package node

import (
	"errors"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

// acceptAgain is the pause after a connection could not be accepted, such as for want of descriptors.
const acceptAgain = 50 * time.Millisecond

// peerDoor keeps the port for peers over the changes of the view. While no one uses it, it hangs up on who calls,
// so that peers need not wait to learn that nobody is there.
type peerDoor struct {
	listener net.Listener
	log      *zap.Logger
	mutex    sync.Mutex
	user     *peerListener // nil: nobody
}

// run accepts connections until the listener is closed.
func (d *peerDoor) run() {
	for {
		connection, err := d.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			d.log.Warn("Peer could not be accepted", zap.Error(err))
			time.Sleep(acceptAgain)
			continue
		}
		d.mutex.Lock()
		user := d.user
		d.mutex.Unlock()
		if user == nil || !user.take(connection) {
			_ = connection.Close() // the peer calls again
		}
	}
}

// open gives the port to a new user; the earlier one must have closed its listener.
func (d *peerDoor) open() net.Listener {
	l := &peerListener{door: d, connections: make(chan net.Conn), closed: make(chan struct{})}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.user = l
	return l
}

// peerListener is the port for one user.
type peerListener struct {
	door        *peerDoor
	connections chan net.Conn
	closed      chan struct{}
	closing     sync.Once
}

func (l *peerListener) take(connection net.Conn) bool {
	select {
	case l.connections <- connection:
		return true
	case <-l.closed:
		return false
	}
}

// Accept implements net.Listener.
func (l *peerListener) Accept() (net.Conn, error) {
	select {
	case connection := <-l.connections:
		return connection, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (l *peerListener) Addr() net.Addr { return l.door.listener.Addr() }

// Close implements net.Listener. The port stays with the door.
func (l *peerListener) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.door.mutex.Lock()
		defer l.door.mutex.Unlock()
		if l.door.user == l {
			l.door.user = nil
		}
	})
	return nil
}
