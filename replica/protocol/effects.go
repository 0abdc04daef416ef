package protocol

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Envelope is a message and where it goes. Several envelopes may share one message.
type Envelope struct {
	To      view.MemberID
	Message *peerv1.Message
}

// Completion is the end of an operation, or a part of its result (register.Result.More).
type Completion struct {
	Handle uint64
	Result register.Result
}

// Effects is what a step asks of the world. Send and Complete depend on nothing that is not durable yet
// and leave at once. Persist is one batch; what is behind SendAfterPersist and CompleteAfterPersist leaves
// when it and every earlier batch are durable.
type Effects struct {
	Send                 []Envelope
	Complete             []Completion
	Persist              Batch
	SendAfterPersist     []Envelope
	CompleteAfterPersist []Completion
	// Refused is what other members sent that no sound member sends, for people to know.
	Refused []Refused
	// Fault says that the member can't go on, such as an instance that calls an rmw function it does
	// not know. The world stops the member. If it is a Forgotten, the disk is lost: the world wipes it, and may start the
	// member again, which joins as a newcomer.
	Fault error
}

// Add adds what else is asked of the world in the same step. The first fault counts.
func (e *Effects) Add(more *Effects) {
	e.Send = append(e.Send, more.Send...)
	e.Complete = append(e.Complete, more.Complete...)
	e.SendAfterPersist = append(e.SendAfterPersist, more.SendAfterPersist...)
	e.CompleteAfterPersist = append(e.CompleteAfterPersist, more.CompleteAfterPersist...)
	e.Refused = append(e.Refused, more.Refused...)
	e.Persist.Add(more.Persist)
	if e.Fault == nil {
		e.Fault = more.Fault
	}
}

// Refused is a message, or a page of records, that was not believed.
type Refused struct {
	From view.MemberID
	Why  error // names what it told, and the bound
}

// Forgotten is the fault of a member whose disk lacks some of what others have heard that it held, as one does that was
// put back from an older copy. What it promised is void.
type Forgotten struct {
	By  view.MemberID // who had heard it
	Why string        // what is known of the disk, for people
}

// Error implements error.
func (f *Forgotten) Error() string {
	return fmt.Sprintf("this member's disk has forgotten what it held, and is lost: %s, says member %d", f.Why, f.By)
}
