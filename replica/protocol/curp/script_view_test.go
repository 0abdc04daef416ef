package curp_test

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/datadriven"

	"github.com/georegister/georegister/replica/view"
)

func listOf(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func (s *steps) ids(d *datadriven.TestData, key string) (ids []view.MemberID) {
	for _, word := range listOf(d, key) {
		if word[0] == 'w' {
			ids = append(ids, view.MemberID(100+word[1]-'0'))
		} else {
			ids = append(ids, view.MemberID(word[0]-'a'+1))
		}
	}
	return ids
}

func (s *steps) nextView(d *datadriven.TestData) {
	if d.HasArg("again") {
		s.view = s.former
	}
	now := s.view.Partitions[0]
	p := view.Partition{
		Term: s.view.Epoch + 1, Master: s.ids(d, "master")[0], Backups: s.ids(d, "backups"),
		Witnesses: s.ids(d, "witnesses"), Formers: []view.Former{now.Former()},
	}
	switch formers := listOf(d, "formers"); {
	case len(formers) > 0 && formers[0] == "keep":
		p.Formers = append(append([]view.Former{}, now.Formers...), now.Former())
	case len(formers) > 0 && formers[0] == "same":
		p = now
	case len(formers) > 0 && formers[0] == "none":
		p.Formers = nil
	case len(formers) > 0 && formers[0] == "done":
		p = now
		p.Formers = nil
		if m := s.nodes[p.Master-1]; m.p == nil || m.p.PartitionStatus().Recovered != p.Term {
			s.printf("term %d is not recovered", p.Term)
			return
		}
	}
	if empty := d.HasArg("empty"); empty {
		needed, m := slices.Equal(listOf(d, "empty"), []string{"needed"}), s.nodes[p.Master-1]
		if !needed || m.p != nil && m.p.PartitionStatus().Lost {
			p.Formers, p.Empty = nil, true
		}
	}
	lost := s.ids(d, "lost")
	for i, f := range p.Formers {
		p.Formers[i].Witnesses = slices.DeleteFunc(slices.Clone(f.Witnesses), func(id view.MemberID) bool {
			return slices.Contains(lost, id)
		})
	}
	before := s.view
	s.view.Epoch++
	s.view.Partitions = []view.Partition{p}
	if err := s.view.Validate(); err != nil {
		s.printf("no such view: %v", err)
		s.view = before
		return
	}
	s.former = before
	s.begin()
	text := fmt.Sprintf("epoch %d, term %d: master %s, backups %s, witnesses %s", s.view.Epoch, p.Term, name(p.Master),
		names(p.Backups), names(p.Witnesses))
	for _, f := range p.Formers {
		text += fmt.Sprintf(", recovers term %d", f.Term)
	}
	if p.Empty {
		text += ", empty"
	}
	s.printf("%s", text)
}
