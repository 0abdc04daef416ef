package diagram

import (
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// brief is a message in a few words: kind, operation, key, carstamp, value, instance.
func brief(m *peerv1.Message) string {
	words := notation.Parts{m.Kind.String()}
	words.Add(m.Op != 0, "op %d", m.Op&0xffff_ffff)
	words.Add(len(m.Key) > 0, "%q", m.Key)
	stamp := (register.Carstamp{Timestamp: m.Timestamp, Writer: register.Writer(m.Writer), RMWs: m.Rmws})
	words.Add(!stamp.IsZero(), "%v", stamp)
	words.Add(m.Present, "value %s", notation.Short(m.Value))
	words.Add(m.Same, "same")
	if own := catalog.MessagesOf(m); own.Trace != nil {
		words = append(words, own.Trace(m)...)
	}
	if in := m.Instance; in != nil {
		words.Add(true, "instance %v#%d ballot %d %v", register.Writer(in.GetId().GetWriter()), in.GetId().GetNumber(),
			in.Ballot, in.Status)
		var deps []string
		for _, d := range in.Deps {
			deps = append(deps, fmt.Sprintf("%v#%d", register.Writer(d.Writer), d.Number))
		}
		words.Add(deps != nil, "after %s", strings.Join(deps, ","))
		for _, c := range in.Commands {
			words = append(words, c.Function)
		}
	}
	words.Add(len(m.Transfer.GetRecords()) > 0, "%d records", len(m.Transfer.GetRecords()))
	words.Add(m.Incarnation > 1, "of incarnation %d", m.Incarnation)
	return strings.Join(words, " ")
}

func OperationText(o register.Operation) string {
	switch o.Kind {
	case register.Write:
		return fmt.Sprintf("write %q %s", o.Key, ValueText(o.Value))
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
		return fmt.Sprintf("%s at %v%s", ValueText(r.Value), r.Carstamp, depends)
	}
	return fmt.Sprintf("%s (%s)", r.Status, r.Message)
}

func ValueText(v register.Value) string {
	if !v.Present() {
		return "nothing"
	}
	return notation.Short(v)
}

// KeepersText lists who keeps each partition: its term, master, backups and witnesses, and what it recovers from.
func KeepersText(v view.View) string {
	var b strings.Builder
	for i, p := range v.Partitions {
		fmt.Fprintf(&b, "; %d: term %d of %d %v %v", i, p.Term, p.Master, p.Backups, p.Witnesses)
		for _, f := range p.Formers {
			fmt.Fprintf(&b, " from %d of %d %v %v", f.Term, f.Master, f.Backups, f.Witnesses)
		}
	}
	return b.String()
}

func MembersText(v view.View) string {
	var names []string
	for _, m := range v.Members {
		name := fmt.Sprint(m.ID)
		if m.Joining {
			name = "+" + name
		} else if m.Leaving {
			name = "-" + name
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
