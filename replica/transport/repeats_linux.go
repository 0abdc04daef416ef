package transport

import (
	"time"

	"golang.org/x/sys/unix"
)

// boundRepeats has a connection end when nothing of what was sent is acknowledged for so long.
func boundRepeats(fd int, within time.Duration) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(within.Milliseconds()))
}
