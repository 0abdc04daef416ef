package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// concludeChange finishes or abandons a change as soon as that is safe. It comes before the members are told of the
// joint view: some may refuse it, as those of an image without joint views do, and to tell them again would be all that
// happens.
func concludeChange(s *views.Views) *Outcome {
	if !s.View.Joint() || s.QuorumGone() || s.Partitioned() { // where there are partitions, assignPartitions ends it
		return nil
	}
	if o := proceed(s); o.Step != nil {
		return o
	}
	return nil
}

// advanceChange goes on with a change that was begun, and begins one that can't wait for updates.
func advanceChange(s *views.Views) *Outcome {
	if s.View.Joint() && s.Partitioned() {
		return waitFor("CatchingUp", "%s; %s", changing(s), message.List(s.Decision().Waits))
	}
	if s.View.Joint() {
		return proceed(s)
	}
	if s.GoesFirst() {
		return begin(s)
	}
	return nil
}

// applySiteEdits begins a change to the members that spec.sites asks for.
func applySiteEdits(s *views.Views) *Outcome {
	if s.Asked.None() {
		return nil
	}
	return begin(s)
}

// begin records the joint view of the change that is asked for, once all newcomers wait. Lost members are replaced
// before that if only newcomers for other places are missing.
func begin(s *views.Views) *Outcome {
	if c := s.Obstacle(); c != nil {
		return waitFor(c.Reason, "%s, and that waits: %s", purpose(s, s.Asked), c.Message)
	}
	change := s.Asked
	missing := notWaiting(s, change.Join)
	if repair := onlyRepairs(s); len(missing) > 0 && len(repair.Leave) > 0 && len(notWaiting(s, repair.Join)) == 0 {
		change, missing = repair, nil
	}
	if len(missing) > 0 {
		return waitFor("StartingMembers", "%s; newcomers are started first, and these are missing: %s",
			purpose(s, change), message.List(missing))
	}
	wanted := s.MembershipSnapshot()
	wanted.Leave = facts.IDs(change.Leave)
	for _, m := range change.Join {
		wanted.Join = append(wanted.Join, membership.Founder{ID: m.ID, Site: m.Site, Address: m.Address,
			Disk: s.Report(m.ID).Disk})
	}
	d := membership.Decide(wanted)
	switch {
	case d.Err != nil:
		return waitFor("CannotChange", "%s, and that can't be: %s", purpose(s, change), d.Err)
	case d.Kind != membership.Begun: // not reached: nothing else is to be done by now, and the view is committed
		return waitFor("ViewNotConfirmed", "%s, once a quorum holds view %d", purpose(s, change), s.View.Epoch)
	}
	next := d.Next
	reason := fmt.Sprintf("%s: began the change in view %d", purpose(s, change), next.Epoch)
	event := message.Normal("ChangeBegun", "ChangeView", reason)
	if s.Repairs() {
		event = message.Warning("ChangeBegun", "ChangeView", reason)
	}
	return act(writeRecord(s, next, "BeginningChange", "%s", reason), event)
}

// notWaiting says of each newcomer that does not wait on a disk that it has named what it does.
func notWaiting(s *views.Views, newcomers []view.Member) (missing []string) {
	for _, m := range newcomers {
		if why := awaited(s, m); why != "" {
			missing = append(missing, why)
		}
	}
	return missing
}

// awaited says what a newcomer, or the witness beside it, does that does not wait on a disk that it has named; or is
// empty.
func awaited(s *views.Views, m view.Member) string {
	if r := s.Report(m.ID); r == nil || r.Role != world.Waiting || r.View.Epoch > 0 || r.Disk == "" {
		return message.Member(m) + " " + s.Silence(m)
	}
	if why := s.BesideSilence(m); s.Cluster.Spec.Partitioned() && why != "" {
		return fmt.Sprintf("the witness beside %s %s", message.Member(m), why)
	}
	return ""
}

// onlyRepairs is the part of the asked change that replaces lost members. It is none if more is asked for at once: a
// lost member that is not wanted again.
func onlyRepairs(s *views.Views) (part facts.MemberChange) {
	for _, m := range s.Asked.Leave {
		if s.Lost(m) == "" {
			continue
		}
		i := slices.IndexFunc(s.Asked.Join, func(o view.Member) bool {
			return o.Site == m.Site && !slices.Contains(part.Join, o)
		})
		if i < 0 {
			return facts.MemberChange{}
		}
		part.Leave, part.Join = append(part.Leave, m), append(part.Join, s.Asked.Join[i])
	}
	return part
}

// purpose says what a change is for.
func purpose(s *views.Views, change facts.MemberChange) string {
	var parts []string
	for _, m := range change.Leave {
		part := message.Member(m) + " leaves"
		if why := cmp.Or(s.Lost(m), s.Misplaced(m)); why != "" {
			part += ", since it " + why
		}
		parts = append(parts, part)
	}
	for _, m := range change.Join {
		parts = append(parts, message.Member(m)+" joins")
	}
	return "The members change: " + message.List(parts)
}

// proceed goes on in a joint view as the package membership decides: it finishes the change when that is safe and
// whoever is not done is lost, abandons it when it has become pointless, and waits otherwise.
func proceed(s *views.Views) *Outcome {
	d := membership.Decide(s.MembershipSnapshot())
	switch {
	case d.Err != nil:
		return waitFor("CannotChange", "%s", message.Sentence(d.Err.Error()))
	case d.Kind == membership.Finished:
		reason := fmt.Sprintf("%s: the change is finished with view %d of %d members", changing(s), d.Next.Epoch,
			d.Next.Size())
		if len(d.Rest) > 0 {
			reason += "; it is finished without some: " + message.List(say(s, d.Rest, s.Hopeless))
		}
		return act(writeRecord(s, d.Next, "FinishingChange", "%s", reason),
			message.Normal("ChangeFinished", "ChangeView", reason))
	case d.Kind == membership.Abandoned:
		reason := fmt.Sprintf("%s: the change is abandoned with view %d, since %s", changing(s), d.Next.Epoch,
			because(s, d))
		return act(writeRecord(s, d.Next, "AbandoningChange", "%s", reason),
			message.Warning("ChangeAbandoned", "ChangeView", reason))
	case d.Wait == membership.ForAnswers:
		return waitFor("NoQuorum", "%s; the change is to be abandoned, since %s, once a majority of the members "+
			"before it answers; missing: %s",
			changing(s), because(s, d), message.List(s.Lacking()))
	case d.Wait == membership.ForView:
		return waitFor("ViewNotConfirmed", "%s; view %d counts once a majority of the members before the change and "+
			"one of those after it "+
			"say that they hold it; missing: %s", changing(s), s.View.Epoch, message.List(s.Lacking()))
	}
	return waitFor("CatchingUp", "%s; %s; not done: %s", changing(s), s.Progress().Text(),
		message.List(say(s, d.For, func(m view.Member) string { return catchesUp(s, m) })))
}

// say says something of each of some members of the view.
func say(s *views.Views, of []view.MemberID, what func(view.Member) string) []string {
	return facts.Say(facts.Where(s.View.Members, func(m view.Member) bool { return slices.Contains(of, m.ID) }), what)
}

// because says why a change is abandoned, or is to be.
func because(s *views.Views, d membership.Decision) string {
	const tooFew = "too few of those after it are left: "
	switch d.Cause {
	case membership.NotWanted:
		return s.NotWanted()
	case membership.NewcomerLost:
		lost := facts.Where(s.View.Members, func(m view.Member) bool { return m.Joining && s.Hopeless(m) != "" })
		return facts.Say(lost[:1], s.Hopeless)[0]
	case membership.TooFewLeft:
		gone := facts.Where(s.View.Members, func(m view.Member) bool { return !m.Leaving && s.GivenUp(m) != "" })
		return tooFew + message.List(facts.Say(gone, s.GivenUp))
	}
	return tooFew + message.List(say(s, d.Rest, s.Hopeless))
}

// catchesUp says what a member that is not done with its part in a change does, to be read after its name.
func catchesUp(s *views.Views, m view.Member) string {
	r := s.Report(m.ID)
	switch {
	case r == nil || !s.Holds(m.ID) || r.Role != world.Voter:
		return s.Silence(m)
	case !r.Change.Settled && !s.View.Transfers(m.ID):
		return "ends what was under way before"
	case !s.View.Transfers(m.ID) || r.Change.Fetched:
		return "is about to be done"
	}
	if by := s.UnreachedBy(m.ID); len(by) > 0 {
		return "fetches the state, and can't be reached by " + message.Members(by)
	}
	return "fetches the state"
}

// changing says who joins and leaves in a joint view.
func changing(s *views.Views) string {
	var parts []string
	for _, m := range s.View.Members {
		if m.Joining {
			parts = append(parts, message.Member(m)+" joins")
		}
		if m.Leaving {
			parts = append(parts, message.Member(m)+" leaves")
		}
	}
	return fmt.Sprintf("The members change in view %d: %s", s.View.Epoch, message.List(parts))
}
