package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/decide"
	"github.com/georegister/georegister/dev/process"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// processes are those of members and witnesses: who runs, and as what.
type processes struct {
	binary    string
	spec      v1alpha1.GeoRegisterClusterSpec
	directory *record.Directory
	links     links
	say       func(format string, args ...any)

	mu        sync.Mutex
	members   []*member      // by ID
	dedicated []*witnessUnit // by ID

	background sync.WaitGroup
}

// addMember starts a member of the record.
func (p *processes) addMember(r record.Member) error {
	m, err := p.newMember(r)
	if err != nil {
		return err
	}
	return p.add(m.units(), func() { p.members = append(p.members, m) })
}

// addWitness starts a dedicated witness of the record.
func (p *processes) addWitness(r record.Witness) error {
	w := p.newDedicated(r)
	return p.add([]*unit{&w.unit}, func() { p.dedicated = append(p.dedicated, w) })
}

// add starts new units, all or none, and notes them.
func (p *processes) add(units []*unit, note func()) error {
	if err := p.run(units); err != nil {
		kill(units)
		return errors.Join(err, stop(units))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	note()
	return nil
}

// run starts units that don't run.
func (p *processes) run(units []*unit) error {
	for _, u := range units {
		data, err := json.MarshalIndent(u.config(), "", "  ")
		if err == nil {
			err = os.MkdirAll(u.directory, 0o700)
		}
		if err == nil {
			err = record.Replace(filepath.Join(u.directory, process.Config), append(data, '\n'))
		}
		if err != nil {
			return fmt.Errorf("site %s: write its configuration: %w", u.label, err)
		}
		started, err := process.Start(p.binary, u.command, u.directory)
		if err != nil {
			return fmt.Errorf("site %s: %w", u.label, err)
		}
		u.set(started)
	}
	return nil
}

// retire takes the members and dedicated witnesses out that are gone from the record. It stops their processes and
// removes their disks, which it does not wait for.
func (p *processes) retire(gone func(view.MemberID) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		if gone(m.id) {
			p.background.Go(func() { p.remove(m.units()) })
		}
	}
	for _, w := range p.dedicated {
		if gone(w.id) {
			p.background.Go(func() { p.remove([]*unit{&w.unit}) })
		}
	}
	p.members = slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return gone(m.id) })
	p.dedicated = slices.DeleteFunc(slices.Clone(p.dedicated), func(w *witnessUnit) bool { return gone(w.id) })
}

func (p *processes) remove(units []*unit) {
	if err := errors.Join(stop(units), os.RemoveAll(units[0].directory)); err != nil {
		p.say("%s: %v", units[0].label, err)
	}
}

// all are the members, by ID. The slice is not changed any more.
func (p *processes) all() []*member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.members)
}

// alone are the dedicated witnesses, by ID.
func (p *processes) alone() []*witnessUnit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.dedicated)
}

// witnesses are all that have been started, wherever they are.
func (p *processes) witnesses() (all []*witnessUnit) {
	for _, m := range p.all() {
		if m.witness != nil {
			all = append(all, m.witness)
		}
	}
	return append(all, p.alone()...)
}

// units are those of all members, and the dedicated witnesses.
func (p *processes) units() (all []*unit) {
	for _, m := range p.all() {
		all = append(all, m.units()...)
	}
	for _, w := range p.alone() {
		all = append(all, &w.unit)
	}
	return all
}

// find returns the members of a site, or the one of a label.
func (p *processes) find(site string) ([]*member, error) {
	var found []*member
	var labels []string
	for _, m := range p.all() {
		labels = append(labels, m.label)
		if m.record.Site == site || m.label == site {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no site %q; there are %s", site, strings.Join(labels, ", "))
	}
	return found, nil
}

// witnessesAt are the dedicated witnesses of a site, by ID.
func (p *processes) witnessesAt(site string) (found []*unit) {
	for _, w := range p.alone() {
		if w.site == site {
			found = append(found, &w.unit)
		}
	}
	return found
}

// lost are the members and witnesses that are known to be gone.
func (p *processes) lost() (ids []view.MemberID) {
	for _, u := range p.units() {
		if u.lost() {
			ids = append(ids, u.id)
		}
	}
	return ids
}

// noteNamed notes who has said on which disk it is.
func (p *processes) noteNamed(reports map[view.MemberID]decide.Report) {
	for _, m := range p.all() {
		if reports[m.id].Member != nil {
			m.setEmptied(false)
		}
	}
	for _, w := range p.witnesses() {
		if reports[w.reporter()].Witness != nil {
			w.setEmptied(false)
		}
	}
}

// askWitnesses asks those that run for their lives. There is none of those that don't answer.
func (p *processes) askWitnesses(ctx context.Context) map[view.MemberID]*membership.WitnessReport {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	reports := map[view.MemberID]*membership.WitnessReport{}
	for _, w := range p.witnesses() {
		if !w.running() {
			continue
		}
		group.Go(func() {
			if r, err := w.manager.Report(ctx); err == nil {
				mu.Lock()
				defer mu.Unlock()
				reports[w.reporter()] = &r
			}
		})
	}
	group.Wait()
	return reports
}
