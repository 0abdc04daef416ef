package diagram

import (
	"bytes"
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// Legend explains the lanes.
const Legend = `lanes, a member each: | votes  o does not vote yet  x is down  z stands still  . is in no view  w is a witness  * acts  + sent what arrives`

// Lane is the mark of a member, by what state it is in.
type Lane byte

// The marks of members that neither act nor sent anything.
const (
	Votes       Lane = '|'
	DoesNot     Lane = 'o' // vote yet
	Down        Lane = 'x'
	StandsStill Lane = 'z'
	InNoView    Lane = '.'
	Witnesses   Lane = 'w'
)

// Diagram draws a run as a message diagram: a line per event, a lane per member. A nil diagram draws nothing. Members
// are named by their positions.
type Diagram struct {
	kernel *kernel.Kernel
	lanes  func() []Lane
	text   bytes.Buffer
	over   bool // nothing more is drawn
}

// New makes a diagram of a run, of whose members lanes says how they are.
func New(k *kernel.Kernel, lanes func() []Lane) *Diagram {
	return &Diagram{kernel: k, lanes: lanes}
}

// String is what has been drawn.
func (d *Diagram) String() string {
	if d == nil {
		return ""
	}
	return d.text.String()
}

// End ends the diagram: of what happens from now on nothing is drawn.
func (d *Diagram) End() {
	if d != nil {
		d.over = true
	}
}

// none stands for no member.
const noMember = -1

// line writes one event, of the member that acts and the one that sent what arrives.
func (d *Diagram) line(actor, sender int, format string, args ...any) {
	if d.over {
		return
	}
	fmt.Fprintf(&d.text, "%10.3f ms  ", float64(d.kernel.Now)/float64(time.Millisecond))
	for i, mark := range d.lanes() {
		switch {
		case i == actor:
			mark = '*'
		case i != sender:
		case mark == Witnesses:
			mark = InNoView
		case mark == Votes, mark == DoesNot:
			mark = '+'
		}
		d.text.WriteByte(byte(mark))
		d.text.WriteByte(' ')
	}
	fmt.Fprintf(&d.text, " "+format+"\n", args...)
}

// Note draws what a member does.
func (d *Diagram) Note(member int, format string, args ...any) {
	if d != nil {
		d.line(member, noMember, "%d %s", member+1, fmt.Sprintf(format, args...))
	}
}

// Remark draws what happens to all, or outside of the members.
func (d *Diagram) Remark(format string, args ...any) {
	if d != nil {
		d.line(noMember, noMember, "-- "+format, args...)
	}
}

// Happened draws what befalls a member, or what a client does.
func (d *Diagram) Happened(format string, args ...any) {
	if d != nil {
		d.line(noMember, noMember, format, args...)
	}
}

// Delivered draws a message that a member handles.
func (d *Diagram) Delivered(from, to int, m *peerv1.Message) {
	if d != nil {
		d.line(to, from, "%d -> %d  %s", from+1, to+1, brief(m))
	}
}

// Dropped draws a message that is lost.
func (d *Diagram) Dropped(from, to int, m *peerv1.Message, why string) {
	if d != nil {
		d.line(noMember, from, "%d -x %d  %s (%s)", from+1, to+1, brief(m), why)
	}
}

// Invoked draws the begin of an operation of a client, which is at a site.
func (d *Diagram) Invoked(client string, home int, o register.Operation) {
	if d != nil {
		after := ""
		if o.Kind != register.Fence {
			after = afterText(o.After)
		}
		d.line(noMember, noMember, "%s at %d: %s%s", client, home+1, OperationText(o), after)
	}
}

// Returned draws its end.
func (d *Diagram) Returned(client string, home int, o register.Operation, r register.Result) {
	if d != nil {
		d.line(noMember, noMember, "%s at %d: %s = %s", client, home+1, OperationText(o), resultText(r))
	}
}
