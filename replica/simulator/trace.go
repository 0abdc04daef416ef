package simulator

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// trace draws a run as a message diagram: a line per event, a lane per member. A nil trace draws nothing.
type trace struct {
	world *world
	text  bytes.Buffer
}

// legend explains the lanes.
const legend = `lanes, a member each: | votes  o does not vote yet  x is down  z stands still  . is in no view  w is a witness  * acts  + sent what arrives
`

// line writes one event. actor and sender are positions of nodes, or -1.
func (t *trace) line(actor, sender int, format string, args ...any) {
	fmt.Fprintf(&t.text, "%10.3f ms  ", float64(t.world.Now)/float64(time.Millisecond))
	for i, nd := range t.world.nodes {
		mark := byte('|')
		switch {
		case i == actor:
			mark = '*'
		case nd.witness != nil && nd.born && !nd.down && !nd.paused && i != sender:
			mark = 'w'
		case !nd.born || nd.gone || !nd.acts && !nd.down:
			mark = '.'
		case nd.down:
			mark = 'x'
		case nd.paused:
			mark = 'z'
		case i == sender:
			mark = '+'
		case nd.lost:
			mark = 'o'
		}
		t.text.WriteByte(mark)
		t.text.WriteByte(' ')
	}
	fmt.Fprintf(&t.text, " "+format+"\n", args...)
}

func (t *trace) started(nd *node) {
	if t != nil {
		t.line(nd.index, -1, "%d starts, boot %d", nd.index+1, nd.boots)
	}
}

func (t *trace) crashed(nd *node) {
	if t != nil {
		t.line(-1, -1, "%d crashes", nd.index+1)
	}
}

func (t *trace) wiped(nd *node) {
	if t != nil {
		t.line(-1, -1, "%d loses its disk", nd.index+1)
	}
}

func (t *trace) note(nd *node, format string, args ...any) {
	if t != nil {
		t.line(nd.index, -1, "%d %s", nd.index+1, fmt.Sprintf(format, args...))
	}
}

func (t *trace) remark(format string, args ...any) {
	if t != nil {
		t.line(-1, -1, "-- "+format, args...)
	}
}

func (t *trace) durable(nd *node, batches int) {
	if t != nil {
		t.line(nd.index, -1, "%d durable: %d batches", nd.index+1, batches)
	}
}

func (t *trace) delivered(nd *node, in *input) {
	if t != nil {
		t.line(nd.index, int(in.from)-1, "%d -> %d  %s", in.from, nd.index+1, brief(in.message))
	}
}

func (t *trace) dropped(from, to int, m *peerv1.Message, why string) {
	if t != nil {
		t.line(-1, from, "%d -x %d  %s (%s)", from+1, to+1, brief(m), why)
	}
}

func (t *trace) invoked(c *client) {
	if t != nil {
		after := ""
		if c.operation.Kind != register.Fence {
			after = afterText(c.operation.After)
		}
		t.line(-1, -1, "%s at %d: %s%s", c.name, c.home+1, operationText(c.operation), after)
	}
}

func (t *trace) asked(c *client) {
	if t != nil {
		t.line(-1, -1, "%s asks %d", c.name, c.target.index+1)
	}
}

func (t *trace) returned(c *client, r register.Result) {
	if t != nil {
		t.line(-1, -1, "%s at %d: %s = %s", c.name, c.home+1, operationText(c.operation), resultText(r))
	}
}

// brief is a message in a few words: kind, operation, key, carstamp, value, instance.
func brief(m *peerv1.Message) string {
	own := catalog.MessagesOf(m)
	words := []string{m.Kind.String()}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if m.Op != 0 {
		add("op %d", m.Op&0xffff_ffff)
	}
	if len(m.Key) > 0 {
		add("%q", m.Key)
	}
	if stamp := (register.Carstamp{Timestamp: m.Timestamp, Writer: register.Writer(m.Writer), RMWs: m.Rmws}); !stamp.IsZero() {
		add("%v", stamp)
	}
	if m.Present {
		add("value %s", notation.Short(m.Value))
	}
	if m.Same {
		add("same")
	}
	if own.Trace != nil {
		words = append(words, own.Trace(m)...)
	}
	if in := m.Instance; in != nil {
		add("instance %v#%d ballot %d %v", register.Writer(in.GetId().GetWriter()), in.GetId().GetNumber(), in.Ballot, in.Status)
		if len(in.Deps) > 0 {
			var deps []string
			for _, d := range in.Deps {
				deps = append(deps, fmt.Sprintf("%v#%d", register.Writer(d.Writer), d.Number))
			}
			add("after %s", strings.Join(deps, ","))
		}
		for _, c := range in.Commands {
			add("%s", c.Function)
		}
	}
	if tr := m.Transfer; tr != nil && len(tr.Records) > 0 {
		add("%d records", len(tr.Records))
	}
	if m.Incarnation > 1 {
		add("of incarnation %d", m.Incarnation)
	}
	return strings.Join(words, " ")
}

func operationText(o register.Operation) string {
	switch o.Kind {
	case register.Write:
		return fmt.Sprintf("write %q %s", o.Key, valueText(o.Value))
	case register.RMW:
		args := make([]string, len(o.Call.Args))
		for i, a := range o.Call.Args {
			args[i] = notation.Short(a)
		}
		return fmt.Sprintf("%s %q (%s)", o.Call.Function, o.Key, strings.Join(args, ", "))
	}
	if o.Kind == register.Fence {
		return "fence" + afterText(o.After)
	}
	if o.Stale {
		return fmt.Sprintf("stale read %q", o.Key)
	}
	if o.Regular {
		return fmt.Sprintf("regular read %q", o.Key)
	}
	return fmt.Sprintf("%s %q", o.Kind, o.Key)
}

// afterText is what an operation comes after.
func afterText(after []register.Dependency) string {
	var texts []string
	for _, d := range after {
		texts = append(texts, fmt.Sprintf("%q at %v", d.Key, d.Carstamp))
	}
	if texts == nil {
		return ""
	}
	return " after " + strings.Join(texts, ", ")
}

func resultText(r register.Result) string {
	if r.Status == register.OK {
		depends := ""
		if r.Depends {
			depends = ", depends"
		}
		return fmt.Sprintf("%s at %v%s", valueText(r.Value), r.Carstamp, depends)
	}
	return fmt.Sprintf("%s (%s)", r.Status, r.Message)
}

func valueText(v register.Value) string {
	if !v.Present() {
		return "nothing"
	}
	return notation.Short(v)
}

// keepersText lists who keeps each partition: its term, master, backups and witnesses, and what it recovers from.
func keepersText(v view.View) string {
	var b strings.Builder
	for i, p := range v.Partitions {
		fmt.Fprintf(&b, "; %d: term %d of %d %v %v", i, p.Term, p.Master, p.Backups, p.Witnesses)
		for _, f := range p.Formers {
			fmt.Fprintf(&b, " from %d of %d %v %v", f.Term, f.Master, f.Backups, f.Witnesses)
		}
	}
	return b.String()
}
