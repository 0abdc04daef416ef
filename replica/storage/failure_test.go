package storage

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/georegister/georegister/replica/durable"
)

// Two shards find at once that the disk is an older copy. Neither ends the process before the next one is told.
func TestDamageIsNotedBeforeAnybodyGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written, returned := make(chan struct{}), 0
		f := newFailure(func(error) { <-written })
		for range 2 {
			go func() {
				f.set(durable.ErrDamaged)
				returned++
			}()
			synctest.Wait()
		}
		if returned > 0 {
			t.Errorf("%d go on, and the damage is not noted", returned)
		}
		close(written)
		synctest.Wait()
		if returned != 2 || !errors.Is(f.reason(), durable.ErrDamaged) {
			t.Errorf("%d went on: %v", returned, f.reason())
		}
	})
}
