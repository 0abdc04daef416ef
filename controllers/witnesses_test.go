package controllers

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// AskWitnesses implements members.Members: the one with the id 2 alone answers.
func (d *diary) AskWitnesses(
	_ context.Context, cluster string, targets []members.Target,
) []members.WitnessAnswer {
	answers := make([]members.WitnessAnswer, len(targets))
	for i, target := range targets {
		_ = d.do("ask %s witness %d of %s at %s", cluster, target.ID, target.ClusterID, target.Address)
		if answers[i].Err = errors.New("connection refused"); target.ID == 2 {
			answers[i] = members.WitnessAnswer{Report: &membership.WitnessReport{Witness: 2, Disk: "w2"}}
		}
	}
	return answers
}

// Live implements members.Members.
func (d *diary) Live(
	_ context.Context, _ string, targets []members.Target, v view.View, start, end []membership.Life,
) error {
	return d.do("lives of view %d: %v begin, %v end, at %d witnesses", v.Epoch, start, end, len(targets))
}

func TestWitnessesAreObserved(t *testing.T) {
	d := &diary{}
	r := operator(t, d)
	s := world.Snapshot{Cluster: shop(), ClusterID: "first.x"}
	s.Cluster.Spec.Protocol = "CURP"
	for _, m := range firstMembers(s.Cluster) {
		s.Members = append(s.Members, world.Member{ID: m.ID, Site: m.Site, Pod: pod(m)})
	}
	s.Members[2].Pod = nil
	r.observer.askWitnesses(t.Context(), &s)
	if got := s.Members[0].Witness; got == nil || got.Disk != "w2" {
		t.Errorf("the witness that answers: %+v", got)
	}
	for i, want := range []string{"", "connection refused", "has no pod"} {
		if got := s.Members[i].WitnessSilence; got != want {
			t.Errorf("silence of member %d's: %q, want %q", s.Members[i].ID, got, want)
		}
	}

	s.Record.View = view.View{Epoch: 3}
	life := membership.Life{Witness: 2, Partition: 1, Term: 3}
	for _, lives := range []decide.Lives{{}, {Start: []membership.Life{life}}} {
		if err := r.executor.begin(t.Context(), s, lives); err != nil {
			t.Error(err)
		}
	}
	want := []string{"ask shop/first witness 2 of first.x at 127.0.0.1:7003",
		"ask shop/first witness 4 of first.x at 127.0.0.1:7003",
		"lives of view 3: [{2 1 3}] begin, [] end, at 1 witnesses"}
	if !slices.Equal(d.lines, want) {
		t.Errorf("did %q, want %q", d.lines, want)
	}

	s.Cluster.Spec.Protocol, d.lines = "Gryff", nil
	if r.observer.askWitnesses(t.Context(), &s); len(d.lines) > 0 {
		t.Errorf("of a protocol without witnesses: %q", d.lines)
	}
}
