package script

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/instance"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// change makes the next view, of which no member hears.
func (w *world) change(d *datadriven.TestData) (err error) {
	next := w.view
	switch d.Cmd {
	case "change":
		var newcomers []membership.Founder
		var leaving []view.MemberID
		join := 0
		d.MaybeScanArgs(w.t, "join", &join)
		for i := range join {
			id := w.view.LastIssued() + view.MemberID(i+1)
			newcomers = append(newcomers,
				membership.Founder{ID: id, Site: notation.Member(id), Disk: "disk-" + notation.Member(id)})
		}
		leave, _ := d.Arg("leave")
		for _, name := range leave.Vals {
			leaving = append(leaving, view.MemberID(name[0]-'a'+1))
		}
		next, err = membership.Change(w.view, newcomers, leaving)
		for _, n := range newcomers {
			w.add(n.ID)
		}
	case "finish":
		next, err = membership.Finish(w.view)
	case "abandon":
		next, err = membership.Abandon(w.view)
	}
	if err != nil {
		return err
	}
	w.view = next
	w.printf("the view of epoch %d has %s", w.view.Epoch, describeView(w.view))
	return nil
}

// configure gives a member the newest view, as a world does: the protocol ends, and the next one goes on with its
// operations.
func (w *world) configure(n *node) error {
	n.view = w.view
	if n.member == nil {
		return w.start(n)
	}
	for len(n.batches) > 0 {
		w.persist(n)
	}
	unfinished := n.member.Unfinished()
	n.member = nil
	if n.view.Index(n.id) < 0 {
		w.printf("%s: is not in the view of epoch %d, and stops with %d operations", n.name,
			n.view.Epoch, len(unfinished))
		return nil
	}
	if err := w.start(n); err != nil {
		return err
	}
	for _, r := range unfinished {
		w.printf("%s: operation %d goes on%s", n.name, r.Handle, describeResume(n, r.Resume))
		n.member.Submit(r)
	}
	w.ready(n)
	return nil
}

// tagged is a Resume of a write that has more than a tag.
type tagged interface{ Tag() register.Carstamp }

func describeResume(n *node, r protocol.Resume) string {
	at := func(c register.Carstamp) string { return ", at " + notation.Tag(c.Timestamp, uint64(c.Writer), c.RMWs) }
	switch r := r.(type) {
	case nil:
		return " from its beginning"
	case register.Carstamp:
		return at(r)
	case tagged:
		return at(r.Tag())
	case instance.Resume:
		return fmt.Sprintf(", command %d of %s#%d", r.Command, n.name, r.Instance)
	}
	return " where it was"
}

// describeView lists the members, joining ones with a plus and leaving ones with a minus.
func describeView(v view.View) string {
	var names []string
	for _, m := range v.Members {
		name := notation.Member(m.ID)
		switch {
		case m.Joining:
			name = "+" + name
		case m.Leaving:
			name = "-" + name
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
