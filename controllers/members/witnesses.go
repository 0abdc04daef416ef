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

// liveWithin bounds the lives that begin and end at once: each is written to a disk.
const liveWithin = 3 * time.Second

// AskWitnesses implements Members.
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

// Live implements Members.
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
