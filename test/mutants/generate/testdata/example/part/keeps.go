package part

import peerv1 "example/api/peer/v1"

// Of changes that keep every promise, each beside one that may not.

const (
	maxNumber = 1 << 56
	maxLevel  = 1 << 16
	maxNames  = 4096
)

type state struct {
	number, other int
	promised      ballot
	known         map[string]int
	names         []string
	done, given   bool
	Trips         int
}

func (s *state) Took(path string) {}

// Equal values.

func (s *state) raise(n int) {
	if n > s.number && !s.done {
		s.number = n
		s.Took("raised")
	}
}

func (s *state) raiseOther(n int) {
	if n > s.number {
		s.other = n
	}
}

func (s *state) raiseAndMore(n int) {
	if n > s.number {
		s.number = n
		s.other = 0
	}
}

func (s *state) raiseOrElse(n int) {
	if n > s.number {
		s.number = n
	} else {
		s.other = n
	}
}

func (s *state) follow(b ballot) {
	if s.promised.less(b) {
		s.promised = b
	}
}

func (s *state) raiseKnown(key string, n int) {
	if known, ok := s.known[key]; ok {
		if known < n {
			s.known[key] = n
		}
	}
}

func (s *state) raiseOrMake(key string, n int) {
	if s.known[key] < n {
		s.known[key] = n
	}
}

// Bounds.

func (s *state) exhausted() bool {
	if s.number >= maxNumber {
		return true
	}
	return s.number > s.other || s.other > maxNumber
}

func (s *state) tooHigh() bool {
	if s.number >= maxLevel {
		return true
	}
	return s.done || s.other > maxLevel
}

func (s *state) allows(a *peerv1.Message) bool {
	return len(s.names) < maxNames && len(a.Items) < maxNames
}

// Cases that do the same.

func (s *state) take(kind int) {
	switch kind {
	case 1:
		s.Took("one")
		s.done = true
	case 2:
		s.done = true
	case 3:
		s.done = false
	}
}

// For people.

type result struct{ Status, Trips int }

type Move struct{ Kind int }

func (s *state) moves() []Move { return []Move{{s.kind()}, Move{s.kind()}} }

func (s *state) kind() int {
	if s.given {
		return 1
	}
	return 2
}

func (s *state) handOver() {
	s.given = s.done
	s.done = true
}

func (s *state) count() {
	if s.number > s.other {
		s.Took("more")
	}
	if s.number > s.other {
		s.Took("more")
		s.done = true
	}
	if s.number > s.other {
		s.Trips++
	}
}

// Answers.

var register = struct{ OK, Unavailable int }{1, 2}

func (s *state) Complete(r result)        {}
func (s *state) CompleteDurably(r result) {}

func (s *state) answer() {
	s.CompleteDurably(result{Status: register.Unavailable})
	s.CompleteDurably(result{Status: register.OK})
}
