// Package recovery says what a quorum that is lost for good leaves, why spec.recovery is not carried out, and what it
// costs to go on with those who are left.
package recovery

import (
	"fmt"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Refusal says why spec.recovery does nothing, or is nil if it is to be carried out now. It is asked for.
func Refusal(s *views.Views) *message.Cause {
	asked := s.Cluster.Spec.Recovery
	no := func(reason, format string, args ...any) *message.Cause {
		return &message.Cause{Reason: reason, Message: "spec.recovery does nothing: " + fmt.Sprintf(format, args...)}
	}
	id := view.MemberID(asked.TrustMember)
	r := s.Report(id)
	switch i := s.View.Index(id); {
	case s.Doubt != nil:
		return no("ViewUnknown", "which view is in force is not known")
	case uint64(asked.Epoch) < s.View.Epoch:
		return no("RecoveryIsPast", "it is for view %d, and view %d is in force", asked.Epoch, s.View.Epoch)
	case uint64(asked.Epoch) > s.View.Epoch:
		return no("RecoveryOfNoView", "it is for view %d, and view %d is in force; epoch must be that of status.view",
			asked.Epoch, s.View.Epoch)
	case s.HasQuorum():
		return no("QuorumThere", "a quorum votes")
	case s.Cluster.Spec.Partitioned():
		if c := refusalOfPartitions(s, no); c != nil {
			return c
		}
		if s.Cluster.Spec.Paused {
			return no("Paused", "spec.paused is set; remove it")
		}
	case i < 0:
		return no("TrustsNobody", "member %d is not in view %d", id, s.View.Epoch)
	case r == nil:
		return no("TrustedMemberSilent", "%s %s", message.Member(s.View.Members[i]), s.Silence(s.View.Members[i]))
	case r.Quorum:
		return no("QuorumThere", "member %d says that it reaches a quorum", id)
	case !s.QuorumGone():
		// A consent that was left behind must not turn a moment without a quorum into a loss.
		return no("QuorumMayComeBack", mayComeBack)
	case r.Role != world.Voter || s.View.Members[i].Joining && !r.Change.Fetched:
		return no("TrustedMemberLacksState", "%s holds no state that it could vote with: it %s",
			message.Member(s.View.Members[i]), facts.Doing(r, s.View))
	case s.Cluster.Spec.Paused:
		return no("Paused", "spec.paused is set; remove it")
	}
	return nil
}

const mayComeBack = "a majority may come back with its disks; of members that never will, delete the claims and the " +
	"pods, by force where their nodes are gone for good"

// GoneForGood names the members that are lost, those that are left, and the way on.
func GoneForGood(s *views.Views) string {
	var lost, left []string
	var trusted []view.Member
	for _, m := range s.View.Members {
		r := s.Report(m.ID)
		switch why := s.Lost(m); {
		case s.Remains(m):
			left = append(left, fmt.Sprintf("%s %s", message.Member(m), s.Silence(m)))
			if r != nil && r.Role == world.Voter && !m.Joining {
				trusted = append(trusted, m)
			}
		case why != "":
			lost = append(lost, fmt.Sprintf("%s %s", message.Member(m), why))
		default:
			lost = append(lost, fmt.Sprintf("%s lost what it held: its disk is a new one", message.Member(m)))
		}
	}
	text := fmt.Sprintf("Nothing can be read or written, and no majority can come back: %s.", message.List(lost))
	if len(left) > 0 {
		text += fmt.Sprintf(" Left: %s.", message.List(left))
	}
	text += " Bring the lost volumes back if they exist."
	if s.Partitioned() {
		text += wayOn(s)
	} else if len(trusted) > 0 {
		text += fmt.Sprintf(" If they do not, set spec.recovery to {trustMember: %d, epoch: %d} to go on with what that member holds and give up "+
			"what only others acknowledged", trusted[0].ID, s.View.Epoch)
		if len(trusted) > 1 {
			text += "; any other that is left may be trusted instead, best one that was reachable until the end"
		}
		text += "." + fragmentsLost(s, " ")
	}
	if s.Cluster.Spec.Recovery != nil {
		if c := Refusal(s); c != nil {
			text += " " + c.Message + "."
		}
	}
	return text
}

// MayBeLost says what a recovery may cost.
func MayBeLost(s *views.Views, givenUp []view.MemberID) string {
	return fmt.Sprintf("Given up are members %s: what they acknowledged and the trusted member had not heard of is "+
		"lost, and reads may "+
		"go back to older values", message.Numbers(givenUp)) + fragmentsLost(s, ". ")
}

// fragmentsLost says, after a separator, what becomes of large values when one member alone goes on, if they are
// stored as fragments and one fragment does not restore a value; else it is empty.
func fragmentsLost(s *views.Views, separator string) string {
	e := s.Cluster.Spec.ErasureCoding()
	if e == nil || e.DataFragments == 1 {
		return ""
	}
	return separator + message.Sentence(e.LostWithOne())
}
