package transport

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// mostStrangers bounds the connections of a listener whose other ends have not said who they are, beside
	// strangersByMember for each member of the view: each has a buffer and a goroutine.
	mostStrangers     = 64
	strangersByMember = 4
	// tellStrangers is how often the log says that they were too many.
	tellStrangers = time.Minute
)

// strangers are the connections of an acceptor whose other ends have not said who they are. Of too many, the one that
// has said nothing for longest is closed: a member says so at once, and is not kept out by those that never do.
type strangers struct {
	most   int
	logger *zap.Logger

	mutex   sync.Mutex
	waiting []*stream // oldest first
	closed  int       // since the log was told
	told    time.Time
}

func (s *strangers) add(stranger *stream) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.waiting) == s.most {
		_ = s.waiting[0].connection.Close()
		s.waiting = slices.Delete(s.waiting, 0, 1)
		if s.closed++; time.Since(s.told) > tellStrangers {
			s.logger.Warn("Too many connections to the peer port don't say who they are; the oldest are closed",
				zap.Int("closed", s.closed), zap.Int("most", s.most))
			s.closed, s.told = 0, time.Now()
		}
	}
	s.waiting = append(s.waiting, stranger)
}

// remove takes out one that has said who it is, or has ended, unless it was closed.
func (s *strangers) remove(stranger *stream) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w *stream) bool { return w == stranger })
}
