package view

// Relaxed are the sizes of quorums with which a register may tell, of more than five members, what a write is by who
// holds it, where fewer than any minority may be lost at once (Gus, section 5.1 and table 2). The paper's theorem 1 is
// why there are none for n = 2f + 1 beyond five.
type Relaxed struct {
	// Read is how many have to say which tags they hold before the largest is known: Q_R, a majority.
	Read int
	// Write is how many answers tell a writer in any case whether its tag stays: Q_W = n - f.
	Write int
	// Hold is how many have to hold a write's first tag before it can't be another's any more: it is too late for its
	// writer to change it. The paper says Q_R, which is too few (docs/protocols.md, Gus).
	Hold int
}

// RelaxedFor returns the sizes for n members of which f may be lost, and whether there are any: n > 5, and as many as
// have to hold a write are no more than answer it. The paper's 2n - 2Q_W - 1 < Q_R follows: Hold <= Write says that
// 2f <= n - n/2 <= n/2 + 1, and the left side is 2f - 1.
//
// A writer keeps its tag if a majority holds it, itself included. So it gives it up with at most Read - 2 other holders
// among the Write that answered; f more may be there that did not. One holder more is needed for nobody to give it up.
func RelaxedFor(n, f int) (Relaxed, bool) {
	majority := n/2 + 1
	r := Relaxed{Read: majority, Write: n - f, Hold: majority - 1 + f}
	return r, n > 5 && f > 0 && r.Hold <= r.Write
}
