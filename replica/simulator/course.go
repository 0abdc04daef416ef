package simulator

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/network"
	"github.com/georegister/georegister/replica/view"
)

// course is how a run went by: what its end does not tell.
type course struct {
	sent    []network.Noted // messages, by their numbers, until faults were over
	syncs   uint64          // fsyncs until then
	unready time.Duration   // for how long a change, a failover or a member was not done until then
	behind  time.Duration   // for how long a member was behind others (run.behind), until then
	tail    uint64          // messages in the last part before that
	names   []client        // in the order of their first operations
	took    map[string][]time.Duration
}

// client is who asked, and the site where it did first.
type client struct {
	name string
	site int
}

// tailRetries is how long the last part of a run before faults are over is, in which all is quiet, in times of Retry.
const tailRetries = 8

// follow keeps the course of a run from now on.
func (w *run) follow() *course {
	c := &course{}
	interval := w.Environment.Retry / 8
	var look func()
	look = func() {
		if w.Settled {
			return
		}
		if w.unready() {
			c.unready += interval
		}
		if w.behind() {
			c.behind += interval
		}
		w.After(interval, look)
	}
	w.After(interval, look)
	return c
}

// unready reports whether a change or a failover is not done, or a member does not vote.
func (w *run) unready() bool {
	if w.Manager.Missing() != "" {
		return true
	}
	if w.Environment.Partitioned != nil {
		return false
	}
	return slices.ContainsFunc(w.Made[w.Manager.Record].Members, func(m view.Member) bool {
		return !w.Nodes[m.ID-1].Gone && !w.Nodes[m.ID-1].Voter()
	})
}

// behind reports whether a member has a part of a partition's state only, or a state that is older than another one's by
// entries that a leader has appended.
func (w *run) behind() bool {
	if w.Environment.Partitioned != nil {
		return slices.ContainsFunc(w.Nodes, (*cluster.Node).Copies)
	}
	for shard := range w.Environment.Shards {
		if least, most := w.Applied(shard); least < most {
			return true
		}
	}
	return false
}

// end is the course of a run that has ended.
func (c *course) end(w *run) *course {
	c.sent, c.syncs = w.Network.Noted, w.Syncs
	for i := len(c.sent); i > 0 && c.sent[i-1].At > w.Calm-tailRetries*w.Environment.Retry; i-- {
		c.tail++
	}
	c.take(w.Clients.Recorder.Operations(), w.Environment.Network.Sites)
	return c
}

// take notes how long operations took, by client, in their order; one without an answer took no time.
func (c *course) take(operations []history.Operation, sites []string) {
	c.took = map[string][]time.Duration{}
	for _, o := range operations {
		if c.took[o.Client] == nil {
			c.names = append(c.names, client{o.Client, slices.Index(sites, o.Site)})
		}
		took := time.Duration(0)
		if o.Known() {
			took = o.Latency()
		}
		c.took[o.Client] = append(c.took[o.Client], took)
	}
}
