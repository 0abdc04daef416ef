package member

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
)

// throttle bounds what is fetched in the long run by a rate. In a short time it lets through what the rate gives in its
// window, and a page more of each source that is asked at once.
type throttle struct {
	rate   int64            // bytes a second; 0: not bounded
	window time.Duration    // unused time that counts
	paid   protocol.Instant // until then the rate is used up
}

func newThrottle(c *protocol.Config) throttle {
	t := throttle{rate: max(0, int64(c.TransferRate))}
	// Time passes from tick to tick only: what may be fetched between two of them must fit the window.
	t.window = max(t.takes(pageBytes(c)), c.Retry/2)
	return t
}

func (t *throttle) takes(bytes uint64) time.Duration {
	if t.rate == 0 {
		return 0
	}
	return time.Duration(bytes * uint64(time.Second) / uint64(t.rate))
}

// open reports whether another page may be asked for.
func (t *throttle) open(now protocol.Instant) bool { return t.paid <= now }

// spend notes what came. Its size is not known when it is asked for, so that it may use up time to come.
func (t *throttle) spend(now protocol.Instant, bytes uint64) {
	t.paid = max(t.paid, now.Add(-t.window)).Add(t.takes(bytes))
}
