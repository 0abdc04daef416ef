package membership

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Lives lists the lives that witnesses are to begin and to end, from a snapshot whose view is recorded. A witness that
// lost its disk begins none: what it saved in a life is gone, and the life must not look empty. A life ends once no
// master has to recover from it, and that is held by a quorum, so that it is not forgotten.
func Lives(s Snapshot) (start, end []Life) {
	settled := s.committed()
	for _, r := range s.Witnesses {
		w, known := s.View.Witness(r.Witness)
		if !known || r.Disk != w.Disk {
			continue
		}
		for i, p := range s.View.Partitions {
			life := Life{r.Witness, i, p.Term}
			if slices.Contains(p.Witnesses, r.Witness) && !slices.Contains(r.Lives, life) {
				start = append(start, life)
			}
		}
		for _, life := range r.Lives {
			if settled && over(&s.View, life.Partition, life.Term) {
				end = append(end, Life{r.Witness, life.Partition, life.Term})
			}
		}
	}
	return start, end
}

// over reports whether a partition needs nothing of a term any more: a former one, or one of a view that was forgotten
// with the record, whose epoch a later view has. A partition that is not there was split off in such a view. One that
// never served is not over before those that came before it: a witness remembers the highest term that ended, and would
// not say any more that it never began an earlier one.
func over(v *view.View, partition int, term uint64) bool {
	if partition >= len(v.Partitions) {
		return term <= v.Epoch
	}
	p := v.Partitions[partition]
	return term <= v.Epoch && term != p.Term && !slices.ContainsFunc(p.Formers,
		func(f view.Former) bool { return f.Term <= term })
}

// ChangeWitnesses makes the view in which witnesses come and go. Those that come wait on empty disks that they have
// named, under IDs that nobody had before; one that lost its disk comes again under a new ID. Those that go serve no
// partition, and none has to recover from them. Where IDs are paired (WitnessOf), a witness comes after its member,
// perhaps when later IDs have been given, and it goes when its member leaves; so its ID is not used again.
func ChangeWitnesses(v view.View, come []view.Witness, gone []view.MemberID) (view.View, error) {
	fail := func(format string, args ...any) (view.View, error) {
		return view.View{}, fmt.Errorf("change the witnesses of epoch %d: %w", v.Epoch, fmt.Errorf(format, args...))
	}
	next := v
	next.Witnesses = slices.Clone(v.Witnesses)
	for _, id := range gone {
		if _, known := v.Witness(id); !known {
			return fail("witness %d is to go, and is not in it", id)
		}
		if i := v.Index(id - 1); i >= 0 && paired(v) && !v.Members[i].Leaving {
			return fail("witness %d goes only with member %d", id, v.Members[i].ID)
		}
		if i := slices.IndexFunc(v.Partitions, func(p view.Partition) bool { return needs(p, id) }); i >= 0 {
			return fail("witness %d is to go, and partition %d needs it still", id, i)
		}
		next.Witnesses = slices.DeleteFunc(next.Witnesses, func(w view.Witness) bool { return w.ID == id })
	}
	for _, w := range come {
		switch {
		case w.ID <= v.LastIssued() && !(paired(v) && w.ID == WitnessOf(w.Beside)):
			return fail("witness %d is to come, and IDs up to %d were given before", w.ID, v.LastIssued())
		case w.Disk == "":
			return fail("witness %d is to come, and has not named its disk yet", w.ID)
		}
		next.Witnesses = append(next.Witnesses, w)
	}
	next.Epoch++
	next.Issued = max(v.LastIssued(), next.LastIssued())
	if err := next.Validate(); err != nil {
		return fail("%w", err)
	}
	return next, nil
}

// Idle lists the witnesses of a view that serve no partition, and that none has to recover from.
func Idle(v view.View) (idle []view.MemberID) {
	for _, w := range v.Witnesses {
		if !slices.ContainsFunc(v.Partitions, func(p view.Partition) bool { return needs(p, w.ID) }) {
			idle = append(idle, w.ID)
		}
	}
	return idle
}

// needs reports whether a partition is served by a witness, or may have to be recovered from it.
func needs(p view.Partition, witness view.MemberID) bool {
	return slices.Contains(p.Witnesses, witness) || slices.ContainsFunc(p.Formers,
		func(f view.Former) bool { return slices.Contains(f.Witnesses, witness) })
}
