package main

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
)

// muteFor is how long members are mute before an edit: several looks at every cluster.
const muteFor = 15 * time.Second

// edit measures how long it takes until edits are seen, with members that answer and then with one of each cluster that
// does not.
func (m *measurement) edit(ctx context.Context) (err error) {
	if m.edits == 0 {
		return nil
	}
	if m.editTook, err = m.seen(ctx); err != nil {
		return err
	}
	progress("one member of every cluster is mute from now on")
	m.world.kubelet.members.silence()
	if err := m.pause(ctx, muteFor); err != nil {
		return err
	}
	m.muteTook, err = m.seen(ctx)
	return err
}

// seen edits clusters, one after the other, and tells how long it takes until the status speaks of each edit.
func (m *measurement) seen(ctx context.Context) (took []time.Duration, err error) {
	for n := range m.edits {
		var all v1alpha1.GeoRegisterClusterList
		if err := m.world.api.List(ctx, &all); err != nil {
			return nil, err
		}
		c := &all.Items[n%len(all.Items)]
		before := c.DeepCopy()
		c.Spec.DeletionProtection = !c.Spec.DeletionProtection // nothing comes of it
		if err := m.world.api.Patch(ctx, c, client.MergeFrom(before)); err != nil {
			return nil, fmt.Errorf("edit %s: %w", c.Name, err)
		}
		for began := time.Now(); ; {
			if err := m.pause(ctx, 5*time.Millisecond); err != nil {
				return nil, err
			}
			if err := m.world.api.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
				return nil, err
			}
			if c.Status.ObservedGeneration == c.Generation {
				took = append(took, time.Since(began))
				break
			}
		}
	}
	return took, nil
}
