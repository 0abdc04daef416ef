package checked

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// Clients are connections to a store, one for each site, which the clients of a workload share. The zero value has
// none.
type Clients struct {
	Sites   []workload.Site
	Prefix  string // of the keys in the store; the history has the short ones
	clients []*client.Client
}

// Add connects to a site. Each of its clients is a session there.
func (c *Clients) Add(ctx context.Context, site string, options client.Options) error {
	connected, err := client.Dial(ctx, options)
	if err != nil {
		return fmt.Errorf("connect to site %s: %w", site, err)
	}
	c.clients = append(c.clients, connected)
	c.Sites = append(c.Sites, workload.Site{Name: site, Connect: func(context.Context, int) (workload.Doer, error) {
		session, err := connected.NewSession()
		return Prefixed(Doer(session), c.Prefix), err
	}})
	return nil
}

// Delete deletes keys of the history from the store, as far as the protocol can.
func (c *Clients) Delete(ctx context.Context, keys []string) error {
	for _, key := range keys {
		err := c.clients[0].Clear(ctx, c.Prefix+key)
		if errors.Is(err, client.ErrUnsupported) {
			return nil // a key stays
		}
		if err != nil {
			return fmt.Errorf("delete the keys under %q again: %w", c.Prefix, err)
		}
	}
	return nil
}

// Close ends the connections.
func (c *Clients) Close() error {
	var errs []error
	for _, connected := range c.clients {
		errs = append(errs, connected.Close())
	}
	return errors.Join(errs...)
}

// Doer does a workload's operations in a session.
func Doer(session *client.Session) workload.Doer { return doer{session} }

type doer struct{ session *client.Session }

// Do implements workload.Doer. An interrupted workload waits for what is under way: breaking it off would only leave
// its outcome unknown.
func (d doer) Do(ctx context.Context, op register.Operation) register.Result {
	result, err := d.session.Do(context.WithoutCancel(ctx), op)
	if err == nil {
		return result
	}
	var refused *client.Refused
	failed := register.Result{Status: register.Unknown, Message: err.Error()}
	switch {
	case errors.As(err, &refused):
		return result // with what it observed, for the checker
	case errors.Is(err, client.ErrUnavailable):
		failed.Status = register.Unavailable
	case errors.Is(err, client.ErrUnsupported):
		failed.Status = register.Unsupported
	case errors.Is(err, client.ErrInvalid), errors.Is(err, client.ErrTooLarge):
		failed.Status = register.Invalid
	}
	return failed
}

// Prefixed is a doer that keeps a workload's keys apart from those of others. Its history has the short keys.
func Prefixed(doer workload.Doer, prefix string) workload.Doer { return prefixed{doer, prefix} }

type prefixed struct {
	workload.Doer
	prefix string
}

// Do implements workload.Doer.
func (p prefixed) Do(ctx context.Context, op register.Operation) register.Result {
	op.Key = p.prefix + op.Key
	return p.Doer.Do(ctx, op)
}

// Every tells every period how it is going, with the time that has passed, until it is stopped. Stop waits for a call
// under way.
func Every(period time.Duration, tell func(elapsed time.Duration)) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for begun := time.Now(); ; {
			select {
			case <-over:
				return
			case now := <-ticker.C:
				tell(now.Sub(begun))
			}
		}
	}()
	return func() { close(over); <-ended }
}
