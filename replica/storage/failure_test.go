package storage

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/georegister/georegister/replica/durable"
)

// Two shards find at once that the disk is an older copy. Neither ends the process before the next one is told.
func TestDamageIsNotedBeforeAnybodyGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written, returned := make(chan struct{}), atomic.Int32{}
		f := newFailure(func(error) { <-written })
		for range 2 {
			go func() {
				f.set(durable.ErrDamaged)
				returned.Add(1)
			}()
			synctest.Wait()
		}
		if n := returned.Load(); n > 0 {
			t.Errorf("%d go on, and the damage is not noted", n)
		}
		close(written)
		synctest.Wait()
		if n := returned.Load(); n != 2 || !errors.Is(f.reason(), durable.ErrDamaged) {
			t.Errorf("%d went on: %v", n, f.reason())
		}
	})
}
