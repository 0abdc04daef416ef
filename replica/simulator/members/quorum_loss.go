package members

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// QuorumLoss is the permanent loss of a quorum of members, and what it means for what clients saw.
type QuorumLoss struct {
	Happened   bool
	GivenUp    bool          // the members that are lost are, and partitions go on from the others
	At         time.Duration // when they were given up
	Incomplete map[int]bool  // partitions that something was lost of; never ranged over
	Whole      view.View     // the one that was given up with them
}

// OfWholePartitions are the operations on partitions that nothing was lost of: whatever clients saw of these must still
// hold.
func (l *QuorumLoss) OfWholePartitions(all []history.Operation) []history.Operation {
	if !l.Happened {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(o history.Operation) bool {
		return !l.GivenUp || l.hurt(o)
	})
}

// Since are the operations on partitions that something was lost of, as far as they still say something: whatever began
// before that may have had an effect or not, and what begins later has to fit.
func (l *QuorumLoss) Since(all []history.Operation) (since []history.Operation) {
	for _, o := range all {
		if !l.GivenUp || !l.hurt(o) {
			continue
		}
		if o.Invoked <= l.At {
			o.Result = register.Result{Status: register.Unknown}
		}
		since = append(since, o)
	}
	return since
}

// hurt reports whether something was lost of the partition that an operation is on.
func (l *QuorumLoss) hurt(o history.Operation) bool {
	return l.Incomplete[l.Whole.Shard(register.Hash([]byte(o.Request.Key)))]
}
