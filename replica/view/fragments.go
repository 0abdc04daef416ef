package view

// Fragments says of large values that are stored as fragments, one with each member, how many of those restore one,
// and how many members may be lost. Its zero value says that members store every value whole.
type Fragments struct {
	Data   int // k of the paper
	Faults int // f of the paper; 0: any minority
}

// Tolerated is how many of the members of one side of a change may be lost.
func (f Fragments) Tolerated(side View) int {
	if f.Faults > 0 {
		return min(f.Faults, side.Faults())
	}
	return side.Faults()
}

// Holders is how many members of one side of a change have to hold their fragments of a value before it is
// acknowledged: when f of them are lost, enough are left. They are a majority too, so that whoever copies the state
// of one hears of the value. It is more than the members there are in a view that a recovery left.
func (f Fragments) Holders(side View) int { return max(f.Data+f.Tolerated(side), side.Majority()) }

// Restorable reports whether the fragments of everything that was acknowledged before a joint view are with so many
// members after the change that f of these may be lost. Those are whoever has fetched, since that made its
// fragments of all it heard of, and of those that stay the ones that a writer must have counted: at the worst it
// counted everybody who leaves. A lost member that stays counts here, for it is one of the f.
func (f Fragments) Restorable(joint View, fetched func(MemberID) bool) bool {
	if f.Data == 0 {
		return true
	}
	before, after := joint.Before(), joint.After()
	holders, stay := 0, 0
	for _, m := range after.Members {
		switch {
		case fetched(m.ID):
			holders++
		case before.Index(m.ID) >= 0:
			stay++
		}
	}
	counted := f.Holders(before) - (before.Size() - stay)
	return holders+min(max(counted, 0), stay) >= min(f.Holders(after), after.Size())
}
