package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mark is on packets that have been delayed. It ends with the network namespace that they leave.
const mark = 0x67656f72

// sender sends copies of packets of IPv4.
type sender struct{ socket int }

func newSender() (*sender, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW) // with headers
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_MARK, mark); err != nil {
		unix.Close(socket)
		return nil, fmt.Errorf("mark packets: %w", err)
	}
	return &sender{socket}, nil
}

// send sends a packet, as it is, to where its header says.
func (s *sender) send(packet []byte) error {
	return unix.Sendto(s.socket, packet, unix.MSG_DONTWAIT, &unix.SockaddrInet4{Addr: [4]byte(packet[16:20])})
}
