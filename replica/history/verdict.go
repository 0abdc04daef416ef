package history

import (
	"time"
)

// Outcome is what a check found.
type Outcome string

// The outcomes, as reports spell them. Only Linearizable is success.
const (
	Linearizable Outcome = "linearizable"
	Violation    Outcome = "violation"
	// Timeout: the search did not end in time, or would have held too much. Nothing is known, so it is a failure.
	Timeout Outcome = "timeout"
	// Stopped: the context ended before the check did. Nothing is known, so it is a failure.
	Stopped Outcome = "stopped"
)

// Options say how to check.
type Options struct {
	// Timeout bounds the check of the whole history; 0 is no bound. What explains a violation takes up to
	// four seconds more.
	Timeout time.Duration
	// Brief leaves a violation unexplained, without Failing, Explanation and Picture: for callers that try
	// many histories.
	Brief bool

	most int // bytes that a search may hold; 0 is maxSearched
}

// Verdict is the outcome of a check and what there is to say about it.
type Verdict struct {
	Outcome    Outcome
	Operations int // how many were in the history
	Checked    int // how many of them say something about a value or may have changed one
	Unknown    int // how many of the checked ones have an unknown outcome
	Keys       int
	Searched   int // keys for which the order that the carstamps propose was no proof, so that all orders were searched

	Key         string      // Violation, Timeout: the first key, in byte order, that is not linearizable or timed out
	Explanation string      // for people; empty if linearizable
	Failing     []Operation // Violation: a small part of the key's operations that no order explains
}

// OK reports whether the history was proved linearizable.
func (v Verdict) OK() bool { return v.Outcome == Linearizable }
