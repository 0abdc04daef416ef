package dev

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/dev/process"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/manage"
)

// unit is what runs as a process: a member, or a witness. A member and the witness beside it are what a pod holds, so
// they are killed, wiped and stopped together unless the witness alone is named.
type unit struct {
	id         view.MemberID
	label      string // as commands name it
	directory  string // its configuration, log and disk
	command    string // of the program
	config     func() any
	disconnect func() error // closes the connection to it

	mu      sync.Mutex
	process *process.Process // the latest; nil: none yet
	emptied bool             // its disk was removed, and it has not said on which one it is since
}

// member is one member of a cluster, running or not.
type member struct {
	unit
	record  record.Member
	admin   adminv1.AdminClient
	telling atomic.Bool  // it is being told a view
	silent  atomic.Bool  // it did not answer when it was asked last
	witness *witnessUnit // beside it; nil: there is none
}

// witnessUnit is the witness beside a member, or a dedicated one.
type witnessUnit struct {
	unit
	member  view.MemberID // beside which it is; 0: it is a dedicated one
	site    string
	manager *manage.Conn
	busy    atomic.Bool // lives are being begun or ended
	said    atomic.Pointer[string]
}

// units are the member and its witness, if there is one.
func (m *member) units() []*unit {
	if m.witness == nil {
		return []*unit{&m.unit}
	}
	return []*unit{&m.unit, &m.witness.unit}
}

// reporter is under whose ID what a witness says is noted: the member's that it is beside, or its own.
func (w *witnessUnit) reporter() view.MemberID {
	if w.member != 0 {
		return w.member
	}
	return w.id
}

// disk is the directory that a wipe removes.
func (u *unit) disk() string { return filepath.Join(u.directory, "disk") }

// current is the latest process, running or not.
func (u *unit) current() *process.Process {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.process
}

// running reports whether the unit has a process that has not ended.
func (u *unit) running() bool {
	p := u.current()
	return p != nil && p.Running()
}

func (u *unit) set(p *process.Process) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.process = p
}

// setEmptied notes that the disk is about to be removed, or that the process has said on which disk it is: that
// decides, the view may name it.
func (u *unit) setEmptied(emptied bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.emptied = emptied
}

// lost reports whether whom the view means is known to be gone: the process died, or the disk was removed.
func (u *unit) lost() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.emptied || u.process != nil && u.process.Died()
}

// stop ends units in order, all at once, and closes the connections to them.
func stop(units []*unit) error {
	errs := make([]error, len(units))
	var group sync.WaitGroup
	for i, u := range units {
		group.Go(func() {
			if p := u.current(); p != nil {
				if err := p.Stop(stopWithin); err != nil {
					errs[i] = fmt.Errorf("site %s: %w", u.label, err)
				}
			}
		})
	}
	group.Wait()
	for _, u := range units {
		errs = append(errs, u.disconnect())
	}
	return errors.Join(errs...)
}

// kill ends units as a crash would, as one: all of them before any is waited for. It reports whether any ran.
func kill(units []*unit) (ran bool) {
	for _, u := range units {
		if u.running() {
			ran = true
			u.current().Signal(syscall.SIGKILL)
		}
	}
	for _, u := range units {
		if p := u.current(); p != nil {
			p.Wait()
		}
	}
	return ran
}

// newMember is a member of the record, which has not been started.
func (p *processes) newMember(r record.Member) (*member, error) {
	connection, err := grpc.NewClient(record.Loopback(r.Ports.Admin), DialOptions()...)
	if err != nil {
		return nil, fmt.Errorf("site %s: connect to its admin port: %w", r.Label, err)
	}
	m := &member{record: r, admin: adminv1.NewAdminClient(connection)}
	m.unit = unit{id: r.ID, label: r.Label, directory: p.directory.Member(r), command: "replica",
		disconnect: connection.Close}
	m.config = func() any { return p.memberConfig(m) }
	if r.Witness != 0 {
		m.witness = p.newWitness(r.Witness, r.Label, r.Site, r.Ports.Witness, p.directory.Beside(r))
		m.witness.member = r.ID
	}
	return m, nil
}

// newDedicated is a dedicated witness of the record, which has not been started.
func (p *processes) newDedicated(r record.Witness) *witnessUnit {
	return p.newWitness(r.ID, r.Site, r.Site, r.Port, p.directory.Witness(r))
}

func (p *processes) newWitness(id view.MemberID, of, site string, port int, directory string) *witnessUnit {
	manager := manage.Dial(p.directory.Record.Cluster, id, record.Loopback(port), DialOptions()...)
	w := &witnessUnit{site: site, manager: manager}
	w.unit = unit{id: id, label: of + record.WitnessSuffix, directory: directory, command: "witness",
		disconnect: manager.Close}
	w.config = func() any { return p.witnessConfig(w, port) }
	return w
}
