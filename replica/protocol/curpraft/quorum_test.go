package curpraft

import (
	"testing"

	"github.com/georegister/georegister/replica/capability"
)

// Any f + 1 of n witnesses share with a superquorum as many as the threshold, which is a majority of f + 1.
func TestThresholdAndSuperquorum(t *testing.T) {
	for _, c := range []struct{ n, gathered, threshold, superquorum int }{
		{1, 1, 1, 1}, {3, 2, 2, 3}, {5, 3, 2, 4}, {7, 4, 3, 6},
	} {
		g, h, s := gathered(c.n), threshold(c.n), superquorum(c.n)
		if g != c.gathered || h != c.threshold || s != c.superquorum {
			t.Errorf("n = %d: %d gathered, threshold %d, superquorum %d; want %+v", c.n, g, h, s, c)
		}
	}
	for n := 1; n < 20; n++ {
		shared := gathered(n) + superquorum(n) - n
		if shared < threshold(n) || 2*threshold(n) <= gathered(n) || superquorum(n) > n {
			t.Errorf("n = %d: %d gathered, threshold %d, superquorum %d", n, gathered(n), threshold(n), superquorum(n))
		}
		if got := capability.Superquorum.Size(n); got != superquorum(n) {
			t.Errorf("n = %d: the table of protocols has a superquorum of %d, want %d", n, got, superquorum(n))
		}
	}
}
