package main

import "sync"

// once keeps what came of the code without a mutant, by what was run: each is run once. The zero value has nothing.
type once[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

// of is what came of something, which run makes known if it is not.
func (o *once[T]) of(what string, run func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, is := o.known[what]; is {
		return known, nil
	}
	made, err := run()
	if err != nil {
		return made, err
	}
	if o.known == nil {
		o.known = map[string]T{}
	}
	o.known[what] = made
	return made, nil
}
