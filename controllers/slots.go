package controllers

// workers is how many clusters may be looked at at the same time. Most of them wait for their members then, which takes
// nothing but time: how many work is bounded by the slots.
const workers = 512

// slots are the places of those who work. A worker that waits for members gives its place to another one: a member that
// takes connections and never answers must not keep the operator from anybody else's cluster. Without slots nothing is
// bounded.
type slots chan struct{}

func (s slots) take() {
	if s != nil {
		s <- struct{}{}
	}
}

func (s slots) leave() {
	if s != nil {
		<-s
	}
}

// without runs what waits for members, outside of the slot that is held.
func (s slots) without(wait func() error) error {
	s.leave()
	defer s.take()
	return wait()
}
