package membership

import (
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Where there are witnesses, members have odd IDs and witnesses even ones, so that newcomers of both kinds can be
// started at the same time. Where each member has a witness in its own pod, the witness of member m is m + 1. So both
// are known before either has said anything, and no table of them is kept. Dedicated witnesses have even IDs in the
// order in which they are started (DedicatedIDs).

// WitnessOf is the ID of the witness that runs beside a member.
func WitnessOf(member view.MemberID) view.MemberID { return member + 1 }

// PairedIDs are the IDs of the next count members where there are witnesses: odd ones above the last that was
// ever given to a member or a witness (view.View.LastIssued). The founders' are those after 0: 1, 3, 5, ...
func PairedIDs(last view.MemberID, count int) []view.MemberID {
	return everySecond(last+1+last%2, count)
}

// DedicatedIDs are the IDs of the next count witnesses that have pods of their own: even ones above the last that was
// ever given to a member or a witness (view.View.LastIssued). The first are those after 0: 2, 4, 6, ... A view takes
// IDs on in growing order alone: whoever waits under one that is below another that was taken on has to come under a
// later one.
func DedicatedIDs(last view.MemberID, count int) []view.MemberID {
	return everySecond(last+2-last%2, count)
}

func everySecond(first view.MemberID, count int) (ids []view.MemberID) {
	for i := range count {
		ids = append(ids, first+2*view.MemberID(i))
	}
	return ids
}

// paired reports whether each member has an odd ID, and each witness that of the member beside it.
func paired(v view.View) bool {
	return !slices.ContainsFunc(v.Members, func(m view.Member) bool { return m.ID%2 == 0 }) &&
		!slices.ContainsFunc(v.Witnesses, func(w view.Witness) bool {
			return w.Beside == 0 || w.ID != WitnessOf(w.Beside)
		})
}
