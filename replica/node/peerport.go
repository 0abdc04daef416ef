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

// peerPort keeps the port for peers over the changes of the view. While no one uses it, it hangs up on who calls,
// so that peers need not wait to learn that nobody is there.
type peerPort struct {
	listener net.Listener
	log      *zap.Logger
	mutex    sync.Mutex
	user     *peerListener // nil: nobody
}

// run accepts connections until the listener is closed.
func (p *peerPort) run() {
	for {
		connection, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			p.log.Warn("Peer could not be accepted", zap.Error(err))
			time.Sleep(acceptAgain)
			continue
		}
		p.mutex.Lock()
		user := p.user
		p.mutex.Unlock()
		if user == nil || !user.take(connection) {
			_ = connection.Close() // the peer calls again
		}
	}
}

// open gives the port to a new user; the earlier one must have closed its listener.
func (p *peerPort) open() net.Listener {
	l := &peerListener{port: p, connections: make(chan net.Conn), closed: make(chan struct{})}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.user = l
	return l
}

// peerListener is the port for one user.
type peerListener struct {
	port        *peerPort
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
func (l *peerListener) Addr() net.Addr { return l.port.listener.Addr() }

// Close implements net.Listener. The port stays with the peerPort.
func (l *peerListener) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.port.mutex.Lock()
		defer l.port.mutex.Unlock()
		if l.port.user == l {
			l.port.user = nil
		}
	})
	return nil
}
