package node

import (
	"fmt"
	"net"
)

// peerListener is the port for peers as the replica of one view has it, and closes it. The port itself stays open over
// the changes of the view: who calls between two of them is answered in the later one.
func (n *node) peerListener() (net.Listener, error) {
	port, err := n.listeners["peer"].(*net.TCPListener).File()
	if err != nil {
		return nil, fmt.Errorf("listen.peer: %w", err)
	}
	defer func() { _ = port.Close() }() // the listener has a descriptor of its own
	return net.FileListener(port)
}
