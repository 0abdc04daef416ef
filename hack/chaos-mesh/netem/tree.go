package netem

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNothing is said where there is nothing to delete, in the words of tc, by which Chaos Mesh knows that all is well.
//
//lint:ignore ST1005 these are the words of tc
var ErrNothing = errors.New("Error: Cannot delete qdisc with handle of zero.")

// ErrClass is what tc says of a class that a prio has no band for. Chaos Mesh writes the numbers of classes in decimal,
// and tc reads them as hexadecimal: it runs into this with the seventh target of a pod, whose class 1:10 would be band
// 16.
var ErrClass = errors.New("Error: Specified class not found.") //lint:ignore ST1005 these are the words of tc

// Tree is what hangs at the root of one device.
type Tree struct {
	disciplines []*discipline // in the order in which they were added: parents first
}

type discipline struct {
	Command
	link *Link // of a netem
}

// Route says which packets go through which links.
type Route struct {
	Class Handle  // of the packets; zero for all that no other route takes
	Path  []*Link // in the order in which a packet passes them
}

// Add hangs one more discipline into the tree. It is an error if its place is taken or is not there.
func (t *Tree) Add(c Command, dice func() float64) error {
	for _, d := range t.disciplines {
		switch {
		case d.Handle == c.Handle:
			return fmt.Errorf("handle %s is taken", c.Handle)
		case d.Root == c.Root && d.Parent == c.Parent:
			return fmt.Errorf("there is a %s at that place already", d.Kind)
		}
	}
	if !c.Root {
		parent := t.find(Handle{Major: c.Parent.Major})
		if parent == nil {
			return fmt.Errorf("parent %s is not there", c.Parent)
		}
		if (parent.Kind == Prio) != (c.Parent.Minor != 0) || parent.Kind == SFQ {
			return fmt.Errorf("parent %s, a %s, can't have that child", c.Parent, parent.Kind)
		}
		if parent.Kind == Prio && int(c.Parent.Minor) > parent.Bands {
			return ErrClass
		}
	}
	d := &discipline{Command: c}
	if c.Kind == Netem {
		d.link = NewLink(c.Spec, dice)
	}
	t.disciplines = append(t.disciplines, d)
	return nil
}

// Routes are the paths through the tree on which something happens to packets. That for all other packets comes last.
func (t *Tree) Routes() []Route {
	var common []*Link // what hangs one below the other at the root
	var classes *discipline
	for at := t.below(true, Handle{}); at != nil; at = t.below(false, at.Handle) {
		if at.Kind == Prio {
			classes = at
			break
		}
		if at.link != nil {
			common = append(common, at.link)
		}
	}
	var routes []Route
	if classes != nil {
		for _, d := range t.disciplines {
			if d.Parent.Major != classes.Handle.Major || d.Parent.Minor == 0 || d.link == nil {
				continue
			}
			path := slices.Clone(common)
			for at := d; at != nil && at.link != nil; at = t.below(false, at.Handle) {
				path = append(path, at.link)
			}
			routes = append(routes, Route{Class: d.Parent, Path: path})
		}
	}
	if len(common) > 0 {
		routes = append(routes, Route{Path: common})
	}
	return routes
}

func (t *Tree) find(h Handle) *discipline {
	for _, d := range t.disciplines {
		if d.Handle == h {
			return d
		}
	}
	return nil
}

func (t *Tree) below(root bool, parent Handle) *discipline {
	for _, d := range t.disciplines {
		if d.Root == root && d.Parent == parent {
			return d
		}
	}
	return nil
}

// String lists the tree like `tc qdisc show`, and what each netem has done.
func (t *Tree) String() string {
	var out strings.Builder
	for _, d := range t.disciplines {
		place := "root"
		if !d.Root {
			place = "parent " + d.Parent.String()
		}
		fmt.Fprintf(&out, "qdisc %s %s dev %s %s", d.Kind, d.Handle, d.Device, place)
		switch {
		case d.Kind == Prio:
			fmt.Fprintf(&out, " bands %d", d.Bands)
		case d.link != nil:
			fmt.Fprintf(&out, " delay %v jitter %v loss %g%% rate %g bytes/s limit %d\n %v",
				d.Spec.Delay, d.Spec.Jitter, d.Spec.Loss*100, d.Spec.Rate, d.link.limit(), d.link)
		}
		out.WriteByte('\n')
	}
	return out.String()
}
