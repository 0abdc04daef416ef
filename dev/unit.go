package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness"
	"github.com/georegister/georegister/witness/manage"
)

// witnessSuffix follows a member's name in that of the witness beside it, or a site's in that of its dedicated one;
// commands take these too.
const witnessSuffix = "/witness"

// unit is what runs as a process: a member, or the witness beside one. Both are what a pod holds, so they are killed,
// wiped and stopped together unless the witness alone is named.
type unit interface {
	name() string
	current() *process // the latest
	set(*process)
	empty()
}

// sidecar is the witness beside a member, or a dedicated one.
type sidecar struct {
	slot
	id      view.MemberID
	beside  memberRecord
	alone   *witnessRecord // nil: it is beside a member
	manager *manage.Conn
	busy    atomic.Bool // lives are being begun or ended
	said    atomic.Pointer[string]
}

func newSidecar(cluster string, beside memberRecord) *sidecar {
	return &sidecar{
		id: beside.Witness, beside: beside,
		manager: manage.Dial(cluster, beside.Witness, loopback(beside.Ports.Witness), dialOptions()...),
	}
}

func (m *member) name() string { return m.record.Label }
func (w *sidecar) name() string {
	if w.alone != nil {
		return w.alone.Site + witnessSuffix
	}
	return w.beside.Label + witnessSuffix
}

// units are the member and its witness, if there is one.
func (m *member) units() []unit {
	if m.witness == nil {
		return []unit{m}
	}
	return []unit{m, m.witness}
}

// ids are those of the member and its witness.
func (m *member) ids() []view.MemberID {
	if m.witness == nil {
		return []view.MemberID{m.record.ID}
	}
	return []view.MemberID{m.record.ID, m.witness.id}
}

// stop ends a member and its witness in order, and at once: neither waits for the other.
func (m *member) stop() error { return stopAll(m.units()) }

func stopAll(units []unit) error {
	errs := make([]error, len(units))
	var group sync.WaitGroup
	for i, u := range units {
		group.Go(func() {
			if p := u.current(); p != nil {
				if err := p.stop(stopWithin); err != nil {
					errs[i] = fmt.Errorf("site %s: %w", u.name(), err)
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// disconnect closes the connections to a member and its witness.
func (m *member) disconnect() error {
	err := m.connection.Close()
	if m.witness != nil {
		err = errors.Join(err, m.witness.manager.Close())
	}
	return err
}

// run starts a unit that does not run.
func (c *Cluster) run(u unit) error {
	var (
		config                any
		directory, subcommand string
	)
	switch u := u.(type) {
	case *member:
		config, directory, subcommand = c.config(u), c.directory.member(u.record), "replica"
	case *sidecar:
		config, directory, subcommand = c.witnessConfig(u), c.directory.witnessOf(u), "witness"
	}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("site %s: make its directory: %w", u.name(), err)
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("site %s: encode its configuration: %w", u.name(), err)
	}
	if err := replaceFile(filepath.Join(directory, configFile), append(data, '\n')); err != nil {
		return fmt.Errorf("site %s: %w", u.name(), err)
	}
	p, err := startProcess(c.options.Binary, subcommand, directory)
	if err != nil {
		return fmt.Errorf("site %s: %w", u.name(), err)
	}
	u.set(p)
	return nil
}

// witnessConfig is what a witness is started with.
func (c *Cluster) witnessConfig(w *sidecar) witness.Config {
	spec := c.options.Manifest.Spec
	durability := witness.Sync
	if spec.Storage.DurabilityOrDefault() == v1alpha1.Memory {
		durability = witness.Memory
	}
	return witness.Config{
		Cluster: c.directory.record.Cluster, Self: uint32(w.id),
		Directory: c.directory.diskOf(w), Durability: durability, Slots: spec.WitnessSlots(),
		Listen: witness.Listen{Peer: loopback(w.port())}, ExitWithInput: true,
	}
}

// Kill ends the members of a site, each with its witness, as a crash would; or a witness alone, by its name.
func (c *Cluster) Kill(site string) error {
	return c.each(site, func(units []unit) error {
		running := false
		for _, u := range units {
			if p := u.current(); p.running() {
				running = true
				p.end(syscall.SIGKILL) // all of them before any is waited for: they are lost as one
			}
		}
		if !running {
			return fmt.Errorf("%s is not running", units[0].name())
		}
		for _, u := range units {
			<-u.current().ended
		}
		return nil
	})
}

// Restart starts the members of a site again, or a witness alone, on their disks; those that run are stopped first.
func (c *Cluster) Restart(site string) error {
	return c.each(site, func(units []unit) error {
		for _, u := range units {
			if p := u.current(); p.running() {
				if err := p.stop(stopWithin); err != nil {
					return fmt.Errorf("%s: %w", u.name(), err)
				}
			}
		}
		return c.runAll(units)
	})
}

// Wipe kills the members of a site, removes their disks, and those of their witnesses, and starts them on empty ones,
// which the view does not name; or that of a dedicated witness, by its name.
func (c *Cluster) Wipe(site string) error {
	// This never changes.
	if member, alone := strings.CutSuffix(site, witnessSuffix); alone && !c.directory.record.Dedicated {
		return fmt.Errorf("the disk of a witness is lost with that of its member; use `wipe %s`", member)
	}
	return c.each(site, func(units []unit) error {
		for _, u := range units {
			u.current().kill()
			u.empty()
		}
		for _, u := range units {
			disk := ""
			switch u := u.(type) {
			case *member:
				disk = c.directory.disk(u.record)
			case *sidecar:
				disk = c.directory.diskOf(u)
			}
			if err := os.RemoveAll(disk); err != nil {
				return fmt.Errorf("%s: remove its disk: %w", u.name(), err)
			}
		}
		return c.runAll(units)
	})
}

func (c *Cluster) runAll(units []unit) error {
	for _, u := range units {
		if err := c.run(u); err != nil {
			return err
		}
	}
	return nil
}

// each changes what runs at a site, member by member, or a witness alone.
func (c *Cluster) each(site string, change func([]unit) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wake()
	name, alone := strings.CutSuffix(site, witnessSuffix)
	if found := c.at(site); alone && len(found) > 0 {
		return change([]unit{found[0]})
	}
	members, err := c.find(name)
	if err != nil {
		return err
	}
	for _, m := range members {
		units := m.units()
		if alone {
			if m.witness == nil && c.directory.record.Dedicated {
				return fmt.Errorf("witnesses have sites of their own; name the site of %s", m.name())
			}
			if m.witness == nil {
				return fmt.Errorf("protocol %s has no witnesses", c.directory.record.Protocol)
			}
			units = units[1:]
		}
		if err := change(units); err != nil {
			return err
		}
	}
	return nil
}
