package node

import (
	"net"
	"testing"
)

// Who calls between two views is answered in the later one, as is who calls then.
func TestThePeerPortStaysOpenOverChangesOfTheView(t *testing.T) {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{listeners: listeners{"peer": port}}
	for range 3 {
		caller, err := net.Dial("tcp", port.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		peers, err := n.peerListener()
		if err != nil {
			t.Fatal(err)
		}
		if peers.Addr().String() != port.Addr().String() {
			t.Errorf("peers are heard at %s, and call %s", peers.Addr(), port.Addr())
		}
		answered, err := peers.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if answered.RemoteAddr().String() != caller.LocalAddr().String() {
			t.Errorf("%s calls, and %s is answered", caller.LocalAddr(), answered.RemoteAddr())
		}
		for _, c := range []interface{ Close() error }{answered, caller, peers} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := n.listeners.close(); err != nil {
		t.Error(err)
	}
}
