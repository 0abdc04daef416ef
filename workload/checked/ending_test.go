package checked

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What ends an interrupted check goes on for a moment, and no longer; without an interrupt it has all the time it
// needs.
func TestEndingOutlivesAnInterruptBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancelCause(context.Background())
		ending, stop := Ending(ctx)
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if ending.Err() != nil {
			t.Fatalf("ended without an interrupt: %v", context.Cause(ending))
		}
		interrupted := errors.New("interrupted")
		interrupt(interrupted)
		time.Sleep(endWithin - time.Millisecond)
		synctest.Wait()
		if ending.Err() != nil {
			t.Errorf("ended at once: %v", context.Cause(ending))
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !errors.Is(context.Cause(ending), interrupted) {
			t.Errorf("after the interrupt: %v", context.Cause(ending))
		}
	})
}
