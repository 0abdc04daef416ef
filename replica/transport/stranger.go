package transport

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

const (
	// mostStrangers bounds the connections of a listener whose other ends have not said who they are, beside
	// strangersByMember for each member of the view: each has a buffer and a goroutine.
	mostStrangers     = 64
	strangersByMember = 4
)

// strangers are the connections of an acceptor whose other ends have not said who they are. Of too many, the one that
// has said nothing for longest is closed: a member says so at once, and is not kept out by those that never do.
type strangers struct {
	most   int
	logger *zap.Logger

	mutex   sync.Mutex
	waiting []*stream // oldest first
	closed  int       // since the process began
	told    rate.Sometimes
}

func newStrangers(members int, logger *zap.Logger) *strangers {
	return &strangers{
		most: mostStrangers + strangersByMember*members, logger: logger, told: rate.Sometimes{Interval: time.Minute},
	}
}

func (s *strangers) add(stranger *stream) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.waiting) == s.most {
		_ = s.waiting[0].connection.Close()
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.closed++
		s.told.Do(func() {
			s.logger.Warn("Too many connections to the peer port don't say who they are; the oldest are closed",
				zap.Int("most", s.most), zap.Int("closed", s.closed))
		})
	}
	s.waiting = append(s.waiting, stranger)
}

// remove takes out one that has said who it is, or has ended, unless it was closed.
func (s *strangers) remove(stranger *stream) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w *stream) bool { return w == stranger })
}
