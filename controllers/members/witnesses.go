package members

import (
	"context"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/manage"
)

// WitnessAnswer is a witness's word, or why there is none.
type WitnessAnswer = Reply[*membership.WitnessReport]

// Witnesses talks to the witnesses of clusters, which are named as Members names them.
type Witnesses interface {
	// AskWitnesses asks all witnesses of a cluster at the same time; it is otherwise like Members.Ask.
	AskWitnesses(ctx context.Context, cluster string, targets []Target) []WitnessAnswer
	// Live has witnesses begin lives on the disks that a view names, and end others. All of it may be repeated. The
	// error joins what was not done.
	Live(ctx context.Context, cluster string, targets []Target, v view.View, start, end []membership.Life) error
}

// liveWithin bounds the lives that begin and end at once: each is written to a disk.
const liveWithin = 3 * time.Second

// AskWitnesses implements Witnesses.
func (c *Client) AskWitnesses(ctx context.Context, cluster string, targets []Target) []WitnessAnswer {
	return survey(ctx, &c.witnesses, cluster, targets,
		func(ctx context.Context, conn *manage.Conn, _ Target) (*membership.WitnessReport, error) {
			said, err := conn.Report(ctx)
			if err != nil {
				return nil, err
			}
			return &said, nil
		})
}

// Live implements Witnesses.
func (c *Client) Live(
	ctx context.Context, cluster string, targets []Target, v view.View, start, end []membership.Life,
) error {
	ctx, cancel := context.WithTimeout(ctx, liveWithin)
	defer cancel()
	return c.witnesses.call(cluster, targets, func(conn *manage.Conn, target Target) error {
		w, known := v.Witness(target.ID)
		if !known {
			return nil
		}
		return conn.Live(ctx, w.Disk, start, end)
	})
}
