// Package disk keeps the records of a witness in an append-only log, and says whose disk it is.
package disk

import (
	"errors"
	"fmt"
	"io"
	"iter"

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
	// Memory keeps no log: each start is one on a disk that has lost everything, under a new name.
	Memory bool
}

// State is what the records of the log add up to.
type State interface {
	Restore(record []byte) error // takes a record, in the order of the log; the record isn't kept
	Snapshot() iter.Seq[[]byte]  // records that lead to the present state
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
	log       *log // nil with Memory
}

// Identify opens a directory, making it if need be, and names its disk. A disk that does not hold what was durable on
// it is set aside, and another one begun, which is New; Damage says why. Load has to follow, and Close in any case.
func Identify(o Options) (*Disk, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	d := &Disk{fs: o.FS, directory: o.Directory}
	if o.Directory == "" {
		if !o.Memory {
			return nil, errors.New("directory: give the witness's own, or choose durability Memory")
		}
		d.record.Disk, d.isNew = durable.NewName(), true
		return d, nil
	}
	if err := durable.MakeDirectory(o.FS, o.Directory); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	lock, err := durable.Lock(o.FS, o.FS.PathJoin(o.Directory, lockFile))
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", o.Directory, err)
	}
	d.lock = lock
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
		d.log = d.newLog()
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
	for _, f := range []struct {
		field     string
		got, want any
	}{{"cluster", d.record.Cluster, want.Cluster}, {"witness", d.record.Witness, want.Witness}} {
		if f.got != f.want {
			return fmt.Errorf("%w: its %s is %v, this one's is %v; give the witness its own directory", ErrForeign,
				f.field, f.got, f.want)
		}
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
	d.isNew, d.log = true, nil
	if !o.Memory {
		d.log = d.newLog()
		if err := d.log.rewrite(func(func([]byte) bool) {}); err != nil {
			return err
		}
	}
	d.record.Memory, d.record.Lost = o.Memory, false
	return d.writeIdentity()
}

// clear removes log and mark of an earlier disk, or moves them aside if it is lost.
func (d *Disk) clear() error {
	aside := d.fs.PathJoin(d.directory, asideDirectory)
	for _, name := range []string{logFile, markFile} {
		path := d.fs.PathJoin(d.directory, name)
		if there, err := durable.Exists(d.fs, path); err != nil {
			return err
		} else if there && d.record.Lost {
			if err := durable.MakeDirectory(d.fs, aside); err != nil {
				return err
			}
			if err := d.fs.Rename(path, d.fs.PathJoin(aside, name)); err != nil {
				return err
			}
			if err := durable.Sync(d.fs, aside); err != nil {
				return err
			}
		}
		if err := durable.Remove(d.fs, d.directory, name); err != nil {
			return err
		}
	}
	return nil
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

func (d *Disk) newLog() *log {
	return &log{fs: d.fs, directory: d.directory, seed: d.record.seed()}
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
	if d.log == nil {
		return nil
	}
	if err := d.log.read(s.Restore); err != nil {
		if errors.Is(err, durable.ErrDamaged) {
			err = errors.Join(fmt.Errorf("%w: %w", ErrDamaged, err), d.Lose(err.Error()))
		}
		return err
	}
	return d.log.rewrite(s.Snapshot())
}

// Lose gives the disk up, and says why: what is on it is an older copy of what it was. The next start is one on an
// empty disk.
func (d *Disk) Lose(why string) error {
	d.record.Damage, d.record.Lost = why, true
	return d.writeIdentity()
}

// Append makes a commit durable: all of it, or, if a crash comes first, nothing of it. After an error the disk can't be
// trusted any more, and every further call returns that error. With Memory it does nothing.
func (d *Disk) Append(c *Commit) error {
	if d.log == nil {
		return nil
	}
	return d.log.append(c)
}

// Rewrite replaces all records by those of a snapshot, which are durable when it returns. Errors are as those of
// Append.
func (d *Disk) Rewrite(records iter.Seq[[]byte]) error {
	if d.log == nil {
		return nil
	}
	return d.log.rewrite(records)
}

// Size is that of the log, in bytes.
func (d *Disk) Size() int64 {
	if d.log == nil {
		return 0
	}
	return d.log.size
}

// Close closes the files. What was appended is durable already.
func (d *Disk) Close() error {
	var errs []error
	if d.log != nil {
		errs = append(errs, d.log.close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

func (d *Disk) writeIdentity() error {
	return durable.WriteDocument(d.fs, d.directory, identityFile, Version, &d.record)
}
