package simulator

import (
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

type eventKind uint8

const (
	deliver    eventKind = iota + 1 // a message arrives at node a from node b
	turn                            // node a handles its inbox
	tick                            // node a's timer
	synced                          // node a's fsync is done
	request                         // attempt aux of client b arrives at node a
	response                        // response aux arrives at client b
	timeout                         // client b has waited long enough for attempt aux
	issue                           // client b may start its next operation
	faultBegin                      // fault aux starts
	faultEnd                        // fault aux ends
	restart                         // node a starts again
	resume                          // node a goes on after a pause
	manage                          // the manager's next round
	configure                       // the manager tells node a view aux - 1, or asks it how it is
	configured                      // node a's answer aux - 1 arrives at the manager
	learned                         // view aux of a peer arrives at node a
	order                           // the manager's message arrives at the witness a
	told                            // message aux of another client arrives at client b
)

// event is something that happens at a time. Events of one time happen in the order in which they were made.
type event struct {
	at       time.Duration
	sequence uint64
	aux      uint64
	message  *peerv1.Message
	sealed   *sealed // checks that nobody changed the message on its way; nil if unchecked
	kind     eventKind
	a, b     int16
	held     int16 // the view in which a message was sent
}

// eventQueue is a binary heap by (at, sequence), typed because it is the simulator's hottest loop.
type eventQueue []event

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.sequence < other.sequence
}

// push moves what comes later down to make room, and copies no event twice.
func (q *eventQueue) push(e event) {
	*q = append(*q, event{})
	h := *q
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

func (q *eventQueue) pop() event {
	h := *q
	top, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{} // lets go of the message
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if child >= len(h) || !h[child].before(&last) {
			h[i] = last
			return top
		}
		h[i] = h[child]
		i = child
	}
}
