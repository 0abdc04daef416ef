package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/manage"
)

// WitnessTarget is a witness as it can be called.
type WitnessTarget struct {
	ID        view.MemberID
	ClusterID string
	Address   string // host:port
}

func (t WitnessTarget) name() string { return fmt.Sprintf("%s %d %s", t.Address, t.ID, t.ClusterID) }

// WitnessAnswer is a witness's word, or why there is none.
type WitnessAnswer struct {
	Report *membership.WitnessReport
	Err    error
}

// Witnesses talks to the witnesses of clusters, which are named as Members names them.
type Witnesses interface {
	// AskWitnesses asks all witnesses of a cluster at the same time; it is otherwise like Members.Ask.
	AskWitnesses(ctx context.Context, cluster string, targets []WitnessTarget) []WitnessAnswer
	// Live has witnesses begin lives on the disks that a view names, and end others. All of it may be repeated. The error
	// joins what was not done.
	Live(ctx context.Context, cluster string, targets []WitnessTarget, v view.View, start, end []membership.Life) error
}

// liveWithin bounds the lives that begin and end at once: each is written to a disk.
const liveWithin = 3 * time.Second

// AskWitnesses implements Witnesses.
func (c *Client) AskWitnesses(ctx context.Context, cluster string, targets []WitnessTarget) []WitnessAnswer {
	c.keepWitnesses(cluster, targets)
	names := make([]string, len(targets))
	conns := make([]*manage.Conn, len(targets))
	for i, target := range targets {
		names[i], conns[i] = target.name(), c.dialWitness(cluster, target)
	}
	answers := make([]WitnessAnswer, len(targets))
	for i, a := range survey(ctx, &c.muteWitnesses, cluster, names, func(ctx context.Context, i int) (membership.WitnessReport, error) {
		return conns[i].Report(ctx)
	}) {
		if answers[i].Err = a.err; a.err == nil {
			answers[i].Report = &a.said
		}
	}
	return answers
}

// Live implements Witnesses.
func (c *Client) Live(ctx context.Context, cluster string, targets []WitnessTarget, v view.View, start, end []membership.Life) error {
	ctx, cancel := context.WithTimeout(ctx, liveWithin)
	defer cancel()
	errs := make([]error, len(targets))
	var telling errgroup.Group
	for i, target := range targets {
		telling.Go(func() error {
			if w, known := v.Witness(target.ID); known {
				errs[i] = c.dialWitness(cluster, target).Live(ctx, w.Disk, start, end)
			}
			return nil
		})
	}
	_ = telling.Wait() // joined below
	return errors.Join(errs...)
}

// dialWitness returns the connection to a witness. Nothing is sent before the first question.
func (c *Client) dialWitness(cluster string, target WitnessTarget) *manage.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.witnesses[cluster][target]; ok {
		return conn
	}
	conn := manage.Dial(target.ClusterID, target.ID, "passthrough:///"+target.Address)
	if c.witnesses[cluster] == nil {
		c.witnesses[cluster] = map[WitnessTarget]*manage.Conn{}
	}
	c.witnesses[cluster][target] = conn
	return conn
}

// keepWitnesses closes the connections of a cluster to others than the targets.
func (c *Client) keepWitnesses(cluster string, targets []WitnessTarget) {
	c.muteWitnesses.forget(cluster, func(name string) bool {
		return slices.ContainsFunc(targets, func(t WitnessTarget) bool { return t.name() == name })
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for target, conn := range c.witnesses[cluster] { // order is irrelevant: each is judged alone
		if !slices.Contains(targets, target) {
			_ = conn.Close() // fails only when it is closed already
			delete(c.witnesses[cluster], target)
		}
	}
	if len(c.witnesses[cluster]) == 0 {
		delete(c.witnesses, cluster)
	}
}
