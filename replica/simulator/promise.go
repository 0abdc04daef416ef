package simulator

import (
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// bound is how much more there may be than in the plain run.
type bound struct {
	took     time.Duration // of an operation
	unready  time.Duration // of changes, failovers and members
	messages int
	quiet    int // messages in the last part, in which all is quiet
}

// unlimited stands for what is not bounded.
const unlimited = 1 << 40

// promise is what the settings of members promise for a deviation. What nobody has heard of is sent again after Retry,
// and what its coordinator does not end another member does after Suspect; each of the two needs a round trip or two,
// which Retry is. That is a recovery; with masters, another one may have to serve first. A message makes two necessary
// at most: of an operation, and of the change of members that it waits for. After a crash an operation may wait for that
// of each client, one after the other, and its own client gives up and asks another member once.
//
// How many messages there are more follows from how many there are while a change of members takes longer; with
// fragments it is not bounded, since those of a writer that has left are asked about for good where nobody knows what
// came of it.
func promise(e *schedule.Environment, plain *course, kind string) bound {
	n := len(e.Network.Sites)
	messages, quiet := max(20*n, len(plain.sent)/2), 8*n
	if e.Data > 0 {
		messages, quiet = unlimited, unlimited
	}
	recovery := e.Suspect + 2*e.Retry
	if p := e.Partitioned; p != nil {
		recovery += p.Suspect + p.Sync.Lease
	}
	down := e.Retry / 2
	switch kind {
	case lost, late, veryLate, twice:
		return bound{2 * recovery, 2 * recovery, messages, quiet}
	case away:
		down = awayRetries * e.Retry
	}
	longest := down + e.Patience + time.Duration(n+1)*recovery
	if kind == silent {
		return bound{longest, unlimited, unlimited, unlimited}
	}
	return bound{longest, longest, unlimited, quiet}
}

// slower is by how much longer operations took than in the plain run, all together and one at most, and of which client
// that is. Those of clients that reach nobody are left out.
func (c *course) slower(plain *course, cut int) (all, most time.Duration, who string) {
	for _, client := range plain.names {
		if client.site == cut {
			continue
		}
		for i, took := range plain.took[client.name] {
			if is := c.took[client.name]; i < len(is) {
				more := is[i] - took
				all += max(0, more)
				if more > most {
					most, who = more, fmt.Sprintf("operation %d of %s", i+1, client.name)
				}
			}
		}
	}
	return all, most, who
}

// tooLate is the failure of a run in which something took longer than its deviation explains, or nil.
func tooLate(s schedule.Schedule, one deviation, plain, is *course, start Start) *Failure {
	fail := func(reason string) *Failure {
		return &Failure{Class: check.Late, Reason: reason, Schedule: s, start: start}
	}
	bound := promise(&s.Environment, plain, one.kind)
	if _, most, who := is.slower(plain, one.cut); most > bound.took {
		return fail(fmt.Sprintf("%s takes %v longer than in the plain run, and what went wrong explains %v",
			who, most, bound.took))
	}
	if more := is.unready - plain.unready; more > bound.unready {
		return fail(fmt.Sprintf("a change, a failover or a member is not done for %v longer than in the plain run, "+
			"and what went wrong explains %v", more, bound.unready))
	}
	if more := len(is.sent) - len(plain.sent); more > bound.messages {
		return fail(fmt.Sprintf("there are %d messages more than the %d of the plain run, and what went wrong "+
			"explains %d", more, len(plain.sent), bound.messages))
	}
	if more := int(is.tail) - int(plain.tail); more > bound.quiet {
		return fail(fmt.Sprintf("in the end, when all is quiet, there are %d messages more than the %d of the plain "+
			"run, and what went wrong explains %d", more, plain.tail, bound.quiet))
	}
	return nil
}
