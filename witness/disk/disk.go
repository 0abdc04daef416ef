// Package disk keeps the records of a witness in an append-only log, and says whose disk it is.
package disk

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
)

// Version is the layout of the directory that this code writes. Another one is refused.
const Version = 2

const (
	identityFile   = "IDENTITY"
	logFile        = "LOG"
	markFile       = "MARK" // of the latest commit that was reported as durable
	lockFile       = "LOCK"
	asideDirectory = "damaged" // what was left of a damaged disk
)

// ErrForeign is what Open wraps when the disk belongs to somebody else.
var ErrForeign = errors.New("the disk belongs to another witness")

// ErrDamaged is what Load wraps when a record makes no sense. That is noted: the next start is one on an empty disk.
var ErrDamaged = errors.New("the disk is damaged, and counts as lost from the next start on")

// Identity says whose disk this is. It never changes.
type Identity struct {
	Cluster string `json:"cluster"`
	Witness uint32 `json:"witness"`
}

// Options say which disk to open.
type Options struct {
	FS        vfs.FS // nil: that of the operating system
	Directory string // made if it is missing; with Memory, it may be empty
	Identity
	// Memory keeps the log in memory: each start is one on a disk that has lost everything, under a new name.
	Memory bool
}

// State is what the records of the log add up to.
type State interface {
	Restore(record []byte) error // takes a record, in the order of the log; the record isn't kept
	Snapshot() [][]byte          // records that lead to the present state
}

// record is the identity as it lies in its file, in JSON, for people too.
type record struct {
	Identity
	// Disk names the disk, at random, as view.Witness.Disk does. One that lost its records is another.
	Disk string `json:"disk"`
	// Memory says that the latest start kept no log.
	Memory bool `json:"memory"`
	// Damage is why the disk that this one took the place of was lost, or why this one is, if Lost.
	Damage string `json:"damage,omitempty"`
	// Lost says that nothing of this disk is to be believed any more.
	Lost bool `json:"lost,omitempty"`
}

func (r *record) seed() uint64 {
	return durable.Seed(fmt.Sprintf("%s/witness/%d/%s", r.Cluster, r.Witness, r.Disk))
}

// Disk is a witness's directory. It is not safe for concurrent use.
type Disk struct {
	fs        vfs.FS
	directory string
	record    record
	isNew     bool
	lock      io.Closer
	*log
}

// Identify opens a directory, making it if need be, and names its disk. A disk that does not hold what was durable on
// it is set aside, and another one begun, which is New; Damage says why. Load has to follow, and Close in any case.
func Identify(o Options) (*Disk, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Directory == "" {
		if !o.Memory {
			return nil, errors.New("directory: give the witness's own, or choose durability Memory")
		}
		o.FS, o.Directory = vfs.NewMem(), "/" // all of it goes with the process
	}
	if err := durable.MakeDirectory(o.FS, o.Directory); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	lock, err := durable.Lock(o.FS, o.FS.PathJoin(o.Directory, lockFile))
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", o.Directory, err)
	}
	d := &Disk{fs: o.FS, directory: o.Directory, lock: lock, log: &log{}}
	if err := d.identify(o); err != nil {
		return nil, fmt.Errorf("directory %s: %w", o.Directory, errors.Join(err, d.Close()))
	}
	return d, nil
}

func (d *Disk) identify(o Options) error {
	known, err := durable.ReadDocument(d.fs, d.directory, identityFile, Version, &d.record)
	damage := ""
	switch {
	case errors.Is(err, durable.ErrDamaged):
		damage = err.Error()
	case err != nil:
		return err
	case !known:
		if err := d.checkEmpty(); err != nil {
			return err
		}
	default:
		if err := d.check(o.Identity); err != nil {
			return err
		}
		if d.record.Lost {
			damage = d.record.Damage
		}
	}
	if known && damage == "" && !d.record.Memory && !o.Memory {
		d.log = d.newLog(d.fs, d.directory)
		err := d.log.read(func([]byte) error { return nil }) // what the records mean is found when they are loaded
		if err == nil || !errors.Is(err, durable.ErrDamaged) {
			return err
		}
		damage = err.Error()
	}
	return d.begin(o, damage)
}

// check refuses a disk that is not the wanted one, naming what differs.
func (d *Disk) check(want Identity) error {
	if got := d.record.Identity; got != want {
		return fmt.Errorf("%w: it is that of witness %d of cluster %q, and this is witness %d of cluster %q; "+
			"give the witness its own directory", ErrForeign, got.Witness, got.Cluster, want.Witness, want.Cluster)
	}
	return nil
}

// begin makes another disk of the directory: there is nothing to restore, or it is given up.
func (d *Disk) begin(o Options, damage string) error {
	// The old name goes before the old log, and the new log comes before the new name: a name never has less than
	// the records that were durable under it.
	d.record = record{Identity: o.Identity, Disk: durable.NewName(), Memory: true, Damage: damage, Lost: damage != ""}
	if err := d.writeIdentity(); err != nil {
		return err
	}
	if err := d.clear(); err != nil {
		return err
	}
	d.isNew, d.log = true, d.newLog(d.fs, d.directory)
	if o.Memory {
		d.log = d.newLog(vfs.NewMem(), "/")
	}
	if err := d.Rewrite(nil); err != nil {
		return err
	}
	d.record.Memory, d.record.Lost = o.Memory, false
	return d.writeIdentity()
}

// clear removes log and mark of an earlier disk, or moves them aside if it is lost.
func (d *Disk) clear() error {
	for _, name := range []string{logFile, markFile} {
		var err error
		if d.record.Lost {
			err = d.setAside(name)
		}
		if err == nil {
			err = durable.Remove(d.fs, d.directory, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setAside moves a file of a lost disk, if there is one.
func (d *Disk) setAside(name string) error {
	aside := d.fs.PathJoin(d.directory, asideDirectory)
	err := durable.MakeDirectory(d.fs, aside)
	if err == nil {
		err = d.fs.Rename(d.fs.PathJoin(d.directory, name), d.fs.PathJoin(aside, name))
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = durable.Sync(d.fs, aside)
	}
	return err
}

// checkEmpty refuses a log whose identity is gone: it may be anybody's.
func (d *Disk) checkEmpty() error {
	for _, name := range []string{logFile, markFile} {
		path := d.fs.PathJoin(d.directory, name)
		if there, err := durable.Exists(d.fs, path); there || err != nil {
			return errors.Join(err,
				fmt.Errorf(
					"%w, as far as can be told: there is %s, and no %s that says whose it is; move it away, and "+
						"the witness begins with an empty disk", ErrForeign, path, identityFile))
		}
	}
	return nil
}

func (d *Disk) newLog(fs vfs.FS, directory string) *log {
	return &log{fs: fs, directory: directory, seed: d.record.seed()}
}

// Name is the disk's, at random.
func (d *Disk) Name() string { return d.record.Disk }

// Damage says why the disk that this one took the place of was lost, or is empty. What was left of it is in the
// directory damaged, until another disk is.
func (d *Disk) Damage() string { return d.record.Damage }

// New reports whether the disk was empty, or has lost what was on it: only a manager that knows its name can begin
// lives.
func (d *Disk) New() bool { return d.isNew }

// Load restores a state from the log, and then writes the log anew, without what was torn or is not needed.
func (d *Disk) Load(s State) error {
	if err := d.log.read(s.Restore); err != nil {
		if errors.Is(err, durable.ErrDamaged) {
			err = errors.Join(fmt.Errorf("%w: %w", ErrDamaged, err), d.Lose(err.Error()))
		}
		return err
	}
	return d.Rewrite(s.Snapshot())
}

// Lose gives the disk up, and says why: what is on it is an older copy of what it was. The next start is one on an
// empty disk.
func (d *Disk) Lose(why string) error {
	d.record.Damage, d.record.Lost = why, true
	return d.writeIdentity()
}

// Close closes the files. What was appended is durable already.
func (d *Disk) Close() error {
	return errors.Join(d.log.close(), d.lock.Close())
}

func (d *Disk) writeIdentity() error {
	return durable.WriteDocument(d.fs, d.directory, identityFile, Version, &d.record)
}
