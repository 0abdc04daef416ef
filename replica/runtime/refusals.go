package runtime

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// refusalsEvery is how often the log tells of what one peer sends that is not believed.
const refusalsEvery = time.Minute

// refusals are when the log says what a peer sent, to any shard: a rate.Sometimes by member.
type refusals struct{ sync.Map }

// log reports what peers sent that was not believed, of each once in refusalsEvery.
func (r *refusals) log(logger *zap.Logger, shard int, all []protocol.Refused) {
	for _, refused := range all {
		of, _ := r.LoadOrStore(refused.From, &rate.Sometimes{Interval: refusalsEvery})
		of.(*rate.Sometimes).Do(func() {
			logger.Warn("What a peer sent is not believed", zap.Uint32("peer", uint32(refused.From)),
				zap.Int("shard", shard), zap.Error(refused.Why))
		})
	}
}

// condemn has the next start take the disk for lost if that is why a protocol can't begin, or go on: it is an older
// copy of what it was, or it tells of a number that nobody can have counted up to.
func (r *Replica) condemn(why error) {
	if forgotten := (*protocol.Forgotten)(nil); errors.As(why, &forgotten) || errors.Is(why, register.ErrNumber) {
		r.store.Condemn(why)
	}
}
