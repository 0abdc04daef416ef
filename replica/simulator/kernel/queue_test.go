package kernel

import (
	"testing"
	"time"
)

func TestEventsComeInOrder(t *testing.T) {
	k := &Kernel{Seed: 7}
	draw, made, last, before := k.Draws(99, 0), 0, -1, time.Duration(-1)
	for range 1000 {
		number := made
		made++
		k.After(draw.Between(0, 50), func() {
			if k.Now < before || k.Now == before && number < last {
				t.Fatalf("%v/%d after %v/%d", k.Now, number, before, last)
			}
			before, last = k.Now, number
		})
	}
	if k.Run(50, func() bool { return false }); k.Events != 1000 {
		t.Errorf("%d of 1000 events happened", k.Events)
	}
}
