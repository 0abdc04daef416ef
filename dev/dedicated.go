package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/manage"
)

// witnessRecord is a dedicated witness: one with a process of its own, at a site.
type witnessRecord struct {
	ID   view.MemberID `json:"id"`
	Site string        `json:"site"`
	Port int           `json:"port"`
}

func newDedicated(cluster string, r witnessRecord) *sidecar {
	return &sidecar{id: r.ID, alone: &r, manager: manage.Dial(cluster, r.ID, loopback(r.Port), dialOptions()...)}
}

// entry is a dedicated witness as a view has it.
func (w witnessRecord) entry(disk string) view.Witness {
	return view.Witness{ID: w.ID, Site: w.Site, Address: loopback(w.Port), Disk: disk}
}

// issueWitness gives a site a dedicated witness, whose process has yet to be started.
func (r *record) issueWitness(site string) {
	r.Issued = membership.DedicatedIDs(r.Issued, 1)[0]
	r.Witnesses = append(r.Witnesses, witnessRecord{ID: r.Issued, Site: site})
}

// witnessLabel names a dedicated witness to people: by its site, if it is the latest there.
func (r *record) witnessLabel(w witnessRecord) string {
	if slices.ContainsFunc(r.Witnesses, func(o witnessRecord) bool { return o.Site == w.Site && o.ID > w.ID }) {
		return fmt.Sprintf("%s%s.%d", w.Site, witnessSuffix, w.ID)
	}
	return w.Site + witnessSuffix
}

// foundingWitnesses are the first dedicated ones, whose IDs are between the founders'.
func (r *record) foundingWitnesses(sites []string) {
	for i, id := range membership.DedicatedIDs(0, len(sites)) {
		r.Witnesses = append(r.Witnesses, witnessRecord{ID: id, Site: sites[i]})
		r.Issued = max(r.Issued, id)
	}
}

// named are the dedicated witnesses that said which disk they are on.
func (r *record) named(reports map[view.MemberID]report) (said []membership.WitnessReport, named []view.Witness) {
	for _, w := range r.Witnesses {
		if report := reports[w.ID].witness; report != nil {
			said, named = append(said, *report), append(named, w.entry(report.Disk))
		}
	}
	return said, named
}

// mislaid reports whether a dedicated witness of the view is on another disk than that names.
func (r *record) mislaid(w witnessRecord, reports map[view.MemberID]report) bool {
	entry, known := r.View.Witness(w.ID)
	said := reports[w.ID].witness
	return known && said != nil && said.Disk != "" && said.Disk != entry.Disk
}

// retiring are the dedicated witnesses of the view that are to go: those of sites without members, and those that have
// a successor there.
func (r *record) retiring() (ids []view.MemberID) {
	for _, w := range r.View.Witnesses {
		succeeded := slices.ContainsFunc(r.View.Witnesses, func(o view.Witness) bool { return o.Site == w.Site && o.ID > w.ID })
		if w.Beside == 0 && (succeeded || !slices.Contains(r.sitesOf(r.View.After()), w.Site)) {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// staff says which dedicated witnesses are to be started, by their sites, and which are over. One that is mislaid gets
// a successor; one that was killed is waited for. While members change none begins: the view takes IDs on in their
// order.
func (r *record) staff(reports map[view.MemberID]report) (missing []string, over []view.MemberID) {
	if !r.Dedicated || r.View.Epoch == 0 || r.View.Joint() || r.Change != nil || !membership.Committed(r.View, holders(reports)) {
		return nil, nil
	}
	for _, w := range r.Witnesses {
		if _, known := r.View.Witness(w.ID); !known && w.ID <= r.View.LastIssued() {
			over = append(over, w.ID)
		}
	}
	for _, site := range r.sitesOf(r.View) {
		if !slices.ContainsFunc(r.Witnesses, func(w witnessRecord) bool {
			return w.Site == site && !slices.Contains(over, w.ID) && !r.mislaid(w, reports)
		}) {
			missing = append(missing, site)
		}
	}
	return missing, over
}

// staff starts the dedicated witnesses that are missing, and ends those that are over. The lock is held.
func (c *Cluster) staff(reports map[view.MemberID]report) error {
	r := &c.directory.record
	missing, over := r.staff(reports)
	if len(missing)+len(over) == 0 {
		return nil
	}
	former, issued := r.Witnesses, r.Issued
	r.Witnesses = slices.DeleteFunc(slices.Clone(r.Witnesses), func(w witnessRecord) bool { return slices.Contains(over, w.ID) })
	kept := len(r.Witnesses)
	for _, site := range missing {
		r.issueWitness(site)
	}
	err := assignWitnesses(r.Witnesses[kept:], slices.Concat(portsOf(r.Members), portsOfWitnesses(former)), false)
	if err == nil {
		err = c.directory.save()
	}
	if err != nil {
		r.Witnesses, r.Issued = former, issued
		return err
	}
	for _, w := range c.dedicated() {
		if slices.Contains(over, w.id) {
			c.dismiss(w)
		}
	}
	for _, w := range r.Witnesses[kept:] {
		c.tellLine("%s starts, as witness %d", r.label(w.ID), w.ID)
		if err := c.openWitness(w); err != nil {
			return err
		}
	}
	return nil
}

// openWitness starts a dedicated witness of the record.
func (c *Cluster) openWitness(r witnessRecord) error {
	w := newDedicated(c.directory.record.Cluster, r)
	c.membersMu.Lock()
	c.alone = append(c.alone, w)
	c.membersMu.Unlock()
	return c.run(w)
}

// dismiss stops a dedicated witness that the record has no more, and removes its disk.
func (c *Cluster) dismiss(w *sidecar) {
	c.membersMu.Lock()
	c.alone = slices.DeleteFunc(c.alone, func(o *sidecar) bool { return o == w })
	c.membersMu.Unlock()
	c.background.Go(func() {
		if err := errors.Join(stopAll([]unit{w}), w.manager.Close(), os.RemoveAll(c.directory.witnessOf(w))); err != nil {
			c.say("%s: %v", w.name(), err)
		}
	})
}

// dedicated are the dedicated witnesses, by ID.
func (c *Cluster) dedicated() []*sidecar {
	c.membersMu.Lock()
	defer c.membersMu.Unlock()
	return slices.Clone(c.alone)
}

// sidecars are all witnesses that have been started, wherever they are.
func (c *Cluster) sidecars() (all []*sidecar) {
	for _, m := range c.all() {
		if m.witness != nil {
			all = append(all, m.witness)
		}
	}
	return append(all, c.dedicated()...)
}

// key is under whose ID what a witness says is noted: the member's that it is beside, or its own.
func (w *sidecar) key() view.MemberID {
	if w.alone != nil {
		return w.id
	}
	return w.beside.ID
}

func (w *sidecar) port() int {
	if w.alone != nil {
		return w.alone.Port
	}
	return w.beside.Ports.Witness
}

// witnessOf is the directory of a witness: its configuration, log and disk.
func (d *directory) witnessOf(w *sidecar) string {
	if w.alone != nil {
		return filepath.Join(d.path, "witnesses", fmt.Sprintf("%s.%d", w.alone.Site, w.id))
	}
	return d.witness(w.beside)
}

// diskOf is what a wipe of a witness removes.
func (d *directory) diskOf(w *sidecar) string { return filepath.Join(d.witnessOf(w), "disk") }

// at are the dedicated witnesses of a site, the latest alone if it is named itself.
func (c *Cluster) at(site string) (found []*sidecar) {
	for _, w := range c.dedicated() {
		if w.alone.Site == strings.TrimSuffix(site, witnessSuffix) {
			found = append(found, w)
		}
	}
	if len(found) > 1 && strings.HasSuffix(site, witnessSuffix) {
		found = found[len(found)-1:]
	}
	return found
}

// cutWitnesses cuts members from the dedicated witnesses of a site. The lock is held.
func (c *Cluster) cutWitnesses(members []*member, site string) (errs []error) {
	for _, w := range c.at(site) {
		for _, m := range members {
			c.cut[between(m.record.ID, w.id)] = true
			errs = append(errs, c.setWitness(m, w.id, w.name(), true))
		}
	}
	return errs
}

// setWitness tells a member of its link to somebody, if it runs; else it will be told when it starts.
func (c *Cluster) setWitness(m *member, id view.MemberID, label string, blocked bool) error {
	if !m.current().running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), linkTimeout)
	defer cancel()
	_, err := m.admin.SetLink(ctx, &adminv1.SetLinkRequest{
		Cluster: c.directory.record.Cluster, Member: uint32(m.record.ID), Peer: uint32(id), Blocked: blocked,
	}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("%s: set the link to %s: %w", m.record.Label, label, err)
	}
	return nil
}

// assignWitnesses gives dedicated witnesses ports, beside others that may be taken later, as assign does for members.
func assignWitnesses(witnesses []witnessRecord, avoid []int, viewed bool) error {
	for deadline := time.Now().Add(stopWithin); ; time.Sleep(pollEvery) {
		err := tryWitnesses(witnesses, avoid, viewed)
		if taken := (*peerPortTaken)(nil); !errors.As(err, &taken) || time.Now().After(deadline) {
			return err
		}
	}
}

func tryWitnesses(witnesses []witnessRecord, avoid []int, viewed bool) error {
	picker := portPicker{avoid: avoid}
	defer picker.release()
	for i := range witnesses {
		w := &witnesses[i]
		if w.Port != 0 && picker.take(w.Port) {
			continue
		}
		if w.Port != 0 && viewed {
			return &peerPortTaken{w.Port, w.Site + witnessSuffix}
		}
		port, err := picker.any()
		if err != nil {
			return err
		}
		w.Port = port
	}
	return nil
}

// portsOf are those of members that run or may run again.
func portsOf(members []memberRecord) (all []int) {
	for _, m := range members {
		all = append(all, m.Ports.Redis, m.Ports.GRPC, m.Ports.Peer, m.Ports.Admin, m.Ports.HTTP, m.Ports.Witness)
	}
	return all
}

func portsOfWitnesses(witnesses []witnessRecord) (all []int) {
	for _, w := range witnesses {
		all = append(all, w.Port)
	}
	return all
}
