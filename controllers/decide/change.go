package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// concludeChange finishes or abandons a change as soon as that is safe. It comes before the members are told of the
// joint view: some may refuse it, as those of an image without joint views do, and to tell them again would be all that
// happens.
func concludeChange(s *situation) *outcome {
	if !s.view.Joint() || s.quorumGone() || s.partitioned() { // where there are partitions, assignPartitions ends it
		return nil
	}
	if o := s.proceed(); o.step != nil {
		return o
	}
	return nil
}

// advanceChange goes on with a change that was begun, and begins one that can't wait for updates.
func advanceChange(s *situation) *outcome {
	if s.view.Joint() && s.partitioned() {
		return waitFor("CatchingUp", "%s; %s", s.changing(), list(s.keeping().Waits))
	}
	if s.view.Joint() {
		return s.proceed()
	}
	if s.goesFirst() {
		return s.begin()
	}
	return nil
}

// applySiteEdits begins a change to the members that spec.sites asks for.
func applySiteEdits(s *situation) *outcome {
	if s.asked.none() {
		return nil
	}
	return s.begin()
}

// begin records the joint view of the change that is asked for, once all newcomers wait. Lost members are replaced
// before that if only newcomers for other places are missing.
func (s *situation) begin() *outcome {
	if c := s.obstacle(); c != nil {
		return waitFor(c.reason, "%s, and that waits: %s", s.purpose(s.asked), c.message)
	}
	change := s.asked
	missing := s.missing(change.join)
	if repair := s.onlyRepairs(); len(missing) > 0 && len(repair.leave) > 0 && len(s.missing(repair.join)) == 0 {
		change, missing = repair, nil
	}
	if len(missing) > 0 {
		return waitFor("StartingMembers", "%s; newcomers are started first, and these are missing: %s", s.purpose(change), list(missing))
	}
	wanted := s.managed()
	wanted.Leave = ids(change.leave)
	for _, m := range change.join {
		wanted.Join = append(wanted.Join, membership.Founder{ID: m.ID, Site: m.Site, Address: m.Address, Disk: s.report(m.ID).Disk})
	}
	d := membership.Decide(wanted)
	switch {
	case d.Err != nil:
		return waitFor("CannotChange", "%s, and that can't be: %s", s.purpose(change), d.Err)
	case d.Kind != membership.Begun: // not reached: nothing else is to be done by now, and the view took hold
		return waitFor("ViewNotConfirmed", "%s, once view %d took hold", s.purpose(change), s.view.Epoch)
	}
	next := d.Next
	reason := fmt.Sprintf("%s: began the change in view %d", s.purpose(change), next.Epoch)
	event := Normal("ChangeBegun", "ChangeView", reason)
	if s.repairs() {
		event = Warning("ChangeBegun", "ChangeView", reason)
	}
	return act(s.record(next, "BeginningChange", reason), event)
}

// record is the step to a next view.
func (s *situation) record(next view.View, step, reason string) ChangeView {
	return ChangeView{View: next, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion, Kind: step, Reason: reason}
}

// missing says of each newcomer that does not wait on a disk that it has named what it does.
func (s *situation) missing(newcomers []view.Member) (missing []string) {
	for _, m := range newcomers {
		if r := s.report(m.ID); r == nil || r.Role != world.Waiting || r.View.Epoch > 0 || r.Disk == "" {
			missing = append(missing, fmt.Sprintf("%s %s", name(m), s.silence(m)))
		} else if s.Cluster.Spec.Partitioned() && s.witnessSilence(m) != "" {
			missing = append(missing, fmt.Sprintf("the witness beside %s %s", name(m), s.witnessSilence(m)))
		}
	}
	return missing
}

// onlyRepairs is the part of the asked change that replaces lost members. It is none if more is asked for at once: a
// lost member that is not wanted again.
func (s *situation) onlyRepairs() (part memberChange) {
	for _, m := range s.asked.leave {
		if s.lost(m) == "" {
			continue
		}
		i := slices.IndexFunc(s.asked.join, func(o view.Member) bool {
			return o.Site == m.Site && !slices.Contains(part.join, o)
		})
		if i < 0 {
			return memberChange{}
		}
		part.leave, part.join = append(part.leave, m), append(part.join, s.asked.join[i])
	}
	return part
}

// purpose says what a change is for.
func (s *situation) purpose(change memberChange) string {
	var parts []string
	for _, m := range change.leave {
		switch why := s.lost(m); {
		case why != "":
			parts = append(parts, fmt.Sprintf("%s leaves, since it %s", name(m), why))
		case s.elsewhere(m) != "":
			parts = append(parts, fmt.Sprintf("%s leaves, since it %s", name(m), s.elsewhere(m)))
		default:
			parts = append(parts, name(m)+" leaves")
		}
	}
	for _, m := range change.join {
		parts = append(parts, name(m)+" joins")
	}
	return "The members change: " + list(parts)
}

// proceed goes on in a joint view as the package membership decides: it finishes the change when that is safe and
// whoever is not done is lost, abandons it when it has become pointless, and waits otherwise.
func (s *situation) proceed() *outcome {
	d := membership.Decide(s.managed())
	switch {
	case d.Err != nil:
		return waitFor("CannotChange", "%s", sentence(d.Err.Error()))
	case d.Kind == membership.Finished:
		reason := fmt.Sprintf("%s: the change is finished with view %d of %d members", s.changing(), d.Next.Epoch, d.Next.Size())
		if len(d.Rest) > 0 {
			reason += "; it is finished without some: " + list(s.say(d.Rest, s.hopeless))
		}
		return act(s.record(d.Next, "FinishingChange", reason), Normal("ChangeFinished", "ChangeView", reason))
	case d.Kind == membership.Abandoned:
		reason := fmt.Sprintf("%s: the change is abandoned with view %d, since %s", s.changing(), d.Next.Epoch, s.because(d))
		return act(s.record(d.Next, "AbandoningChange", reason), Warning("ChangeAbandoned", "ChangeView", reason))
	case d.Wait == membership.ForAnswers:
		return waitFor("NoQuorum", "%s; the change is to be abandoned, since %s, once a majority of the members before it answers; missing: %s",
			s.changing(), s.because(d), list(s.lacking()))
	case d.Wait == membership.ForView:
		return waitFor("ViewNotConfirmed", "%s; view %d counts once a majority of the members before the change and one of those after it "+
			"say that they hold it; missing: %s", s.changing(), s.view.Epoch, list(s.lacking()))
	}
	return waitFor("CatchingUp", "%s; %s; not done: %s", s.changing(), s.done().text(), list(s.say(d.For, s.catchesUp)))
}

// say says something of each of some members of the view.
func (s *situation) say(of []view.MemberID, what func(view.Member) string) (all []string) {
	for _, id := range of {
		m := s.view.Members[s.view.Index(id)]
		all = append(all, fmt.Sprintf("%s %s", name(m), what(m)))
	}
	return all
}

// because says why a change is abandoned, or is to be.
func (s *situation) because(d membership.Decision) string {
	const tooFew = "too few of those after it are left: "
	switch d.Cause {
	case membership.NotWanted:
		return s.notWanted()
	case membership.NewcomerLost:
		i := slices.IndexFunc(s.view.Members, func(m view.Member) bool { return m.Joining && s.hopeless(m) != "" })
		return fmt.Sprintf("%s %s", name(s.view.Members[i]), s.hopeless(s.view.Members[i]))
	case membership.TooFewLeft:
		gone := slices.DeleteFunc(ids(s.view.After().Members), func(id view.MemberID) bool {
			return s.givenUp(s.view.Members[s.view.Index(id)]) == ""
		})
		return tooFew + list(s.say(gone, s.givenUp))
	}
	return tooFew + list(s.say(d.Rest, s.hopeless))
}

// notWanted says why nobody asks for the members after the change of a joint view any more, or is empty.
func (s *situation) notWanted() string {
	after := map[string]int{}
	for _, m := range s.view.After().Members {
		after[m.Site]++
	}
	for _, m := range s.view.Members {
		site := s.siteOf(m)
		switch {
		case m.Joining && (site == nil || after[m.Site] > site.MemberCount()):
			return fmt.Sprintf("%s is not asked for any more", name(m))
		case m.Joining && s.elsewhere(m) != "":
			return fmt.Sprintf("%s %s, as is asked for now", name(m), s.elsewhere(m))
		case m.Leaving && site != nil && after[m.Site] < site.MemberCount() && s.lost(m) == "" && s.elsewhere(m) == "":
			return fmt.Sprintf("%s is asked for again", name(m))
		}
	}
	return ""
}

// givenUp says why a member will not vote in a joint view, or not in time, to be read after its name; or is empty. A
// newcomer's disk is a new one by its nature.
func (s *situation) givenUp(m view.Member) string {
	if why := s.hopeless(m); why != "" || m.Joining || s.remains(m) {
		return why
	}
	return "lost what it held: its disk is a new one"
}

// hopeless says why a member will not do its part in a change, or not in time, to be read after its name; or is empty.
func (s *situation) hopeless(m view.Member) string {
	if why := s.lost(m); why != "" {
		return why
	}
	r, pod := s.report(m.ID), s.pod(m.ID)
	switch {
	case r != nil && m.Joining && r.Disk != m.Disk:
		return "lost the disk that it joined with"
	case r == nil && pod != nil && !ready(pod) && min(s.downFor(pod), s.Member(m.ID).SilentFor) >= s.Settings.LostAfter:
		return s.silence(m) // the pod alone doesn't tell: one that fetches is not ready either
	}
	return ""
}

// standings are what members said of themselves in a joint view.
func (s *situation) standings() map[view.MemberID]membership.Standing {
	all := map[view.MemberID]membership.Standing{}
	for _, m := range s.view.Members {
		if r := s.report(m.ID); r != nil {
			all[m.ID] = membership.Standing{Digest: r.Digest, Settled: r.Change.Settled, Fetched: r.Change.Fetched}
		}
	}
	return all
}

// catchesUp says what a member that is not done with its part in a change does, to be read after its name.
func (s *situation) catchesUp(m view.Member) string {
	r := s.report(m.ID)
	switch {
	case r == nil || !s.holds(m.ID) || r.Role != world.Voter:
		return s.silence(m)
	case !r.Change.Settled && !s.view.Transfers(m.ID):
		return "ends what was under way before"
	case !s.view.Transfers(m.ID) || r.Change.Fetched:
		return "is about to be done"
	}
	if by := s.unreachedBy(m.ID); len(by) > 0 {
		return "fetches the state, and can't be reached by " + strings.Join(by, ", ")
	}
	return "fetches the state"
}

// changing says who joins and leaves in a joint view.
func (s *situation) changing() string {
	var parts []string
	for _, m := range s.view.Members {
		if m.Joining {
			parts = append(parts, name(m)+" joins")
		}
		if m.Leaving {
			parts = append(parts, name(m)+" leaves")
		}
	}
	return fmt.Sprintf("The members change in view %d: %s", s.view.Epoch, list(parts))
}

func ids(members []view.Member) (all []view.MemberID) {
	for _, m := range members {
		all = append(all, m.ID)
	}
	return all
}
