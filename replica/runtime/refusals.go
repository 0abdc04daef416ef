package runtime

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// refusalsEvery is how often the log tells of what one peer sends that is not believed.
const refusalsEvery = time.Minute

// refusals says when the log told last of what a peer sent, to any shard.
type refusals struct {
	mutex sync.Mutex
	last  map[view.MemberID]protocol.Instant
}

// log reports what peers sent that was not believed, of each once in refusalsEvery.
func (r *refusals) log(logger *zap.Logger, shard int, now protocol.Instant, all []protocol.Refused) {
	for _, refused := range all {
		if r.due(refused.From, now) {
			logger.Warn("What a peer sent is not believed", zap.Uint32("peer", uint32(refused.From)),
				zap.Int("shard", shard), zap.Error(refused.Why))
		}
	}
}

func (r *refusals) due(from view.MemberID, now protocol.Instant) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if last, told := r.last[from]; told && now.Sub(last) < refusalsEvery {
		return false
	}
	if r.last == nil {
		r.last = map[view.MemberID]protocol.Instant{}
	}
	r.last[from] = now
	return true
}

// condemn has the next start take the disk for lost if that is why a protocol can't begin, or go on: it is an older
// copy of what it was, or it tells of a number that nobody can have counted up to.
func (r *Replica) condemn(why error) {
	if forgotten := (*protocol.Forgotten)(nil); errors.As(why, &forgotten) || errors.Is(why, register.ErrNumber) {
		r.store.Condemn(why)
	}
}
