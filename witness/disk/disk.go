// Package disk keeps the records of a witness in an append-only log, and says whose disk it is.
package disk

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Version is the layout of the directory that this code writes. Another one is refused.
const Version = 1

const (
	identityFile = "IDENTITY"
	logFile      = "LOG"
	lockFile     = "LOCK"
	newSuffix    = ".new" // a file that is being written, and will replace the one without
)

// ErrForeign is what Open wraps when the disk belongs to somebody else.
var ErrForeign = errors.New("the disk belongs to another witness")

// ErrDamaged is what Open wraps when the disk has lost something that was durable.
var ErrDamaged = errors.New("the disk is damaged; replace the witness, and start it on an empty directory")

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
	Version int `json:"disk_version"`
	Identity
	// Disk names the disk, at random, as view.Witness.Disk does. One that lost its records is another.
	Disk string `json:"disk"`
	// Memory says that the latest start kept no log.
	Memory bool `json:"memory"`
}

// Disk is a witness's directory. It is not safe for concurrent use.
type Disk struct {
	fs        vfs.FS
	directory string
	name      string
	isNew     bool
	lock      io.Closer
	log       *log // nil with Memory
}

// Identify opens a directory, making it if need be, and names its disk. Load has to follow, and Close in any case.
func Identify(o Options) (*Disk, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	d := &Disk{fs: o.FS, directory: o.Directory}
	if o.Directory == "" {
		if !o.Memory {
			return nil, errors.New("directory: give the witness's own, or choose durability Memory")
		}
		d.name, d.isNew = newName(), true
		return d, nil
	}
	if err := makeDirectory(o.FS, o.Directory); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	lock, err := o.FS.Lock(o.FS.PathJoin(o.Directory, lockFile))
	if err != nil {
		return nil, fmt.Errorf("directory %s: another process uses it: %w", o.Directory, err)
	}
	d.lock = lock
	if err := d.identify(o); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Disk) identify(o Options) error {
	r, err := d.readIdentity()
	if err != nil {
		return err
	}
	if r != nil {
		for _, f := range []struct {
			field     string
			got, want any
		}{{"cluster", r.Cluster, o.Cluster}, {"witness", r.Witness, o.Witness}} {
			if f.got != f.want {
				return fmt.Errorf("%w: its %s is %v, this one's is %v; give the witness its own directory", ErrForeign, f.field, f.got, f.want)
			}
		}
	}
	path := d.fs.PathJoin(d.directory, logFile)
	switch {
	case r == nil || r.Memory || o.Memory: // there is nothing to restore, or it is given up
		if r == nil {
			if err := d.checkEmpty(path); err != nil {
				return err
			}
		}
		// The old name goes before the old log, and the new log comes before the new name: a name never has less than
		// the records that were durable under it.
		r = &record{Version: Version, Identity: o.Identity, Disk: newName(), Memory: true}
		if err := d.writeIdentity(r); err != nil {
			return err
		}
		if err := removeFile(d.fs, d.directory, logFile); err != nil {
			return err
		}
		if !o.Memory {
			if err := replaceFile(d.fs, d.directory, logFile, nil); err != nil {
				return err
			}
			r.Memory = false
			if err := d.writeIdentity(r); err != nil {
				return err
			}
		}
		d.isNew = true
	default:
		if _, err := d.fs.Stat(path); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	d.name = r.Disk
	if !r.Memory {
		d.log = &log{fs: d.fs, directory: d.directory}
	}
	return nil
}

// checkEmpty refuses a log whose identity is gone: it may be anybody's.
func (d *Disk) checkEmpty(path string) error {
	info, err := d.fs.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() > 0:
		return fmt.Errorf("%w: there is a log without %s", ErrDamaged, identityFile)
	}
	return nil
}

// Name is the disk's, at random.
func (d *Disk) Name() string { return d.name }

// New reports whether the disk was empty, or has lost what was on it: only a manager that knows its name can begin lives.
func (d *Disk) New() bool { return d.isNew }

// Load restores a state from the log, and then writes the log anew, without what was torn or is not needed.
func (d *Disk) Load(s State) error {
	if d.log == nil {
		return nil
	}
	if err := d.log.read(s.Restore); err != nil {
		return err
	}
	return d.log.rewrite(s.Snapshot())
}

// Append makes a commit durable: all of it, or, if a crash comes first, nothing of it. After an error the disk can't be
// trusted any more, and every further call returns that error. With Memory it does nothing.
func (d *Disk) Append(c *Commit) error {
	if d.log == nil {
		return nil
	}
	return d.log.append(c)
}

// Rewrite replaces all records by those of a snapshot, which are durable when it returns. Errors are as those of Append.
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

func newName() string {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails, says its documentation
	return hex.EncodeToString(name[:])
}

// readIdentity returns nil without an error if there is none.
func (d *Disk) readIdentity() (*record, error) {
	path := d.fs.PathJoin(d.directory, identityFile)
	file, err := d.fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	r := &record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("%s: disk version %d is not %d, the one of this program", path, r.Version, Version)
	}
	if r.Disk == "" {
		return nil, fmt.Errorf("%w: %s does not name the disk", ErrDamaged, path)
	}
	return r, nil
}

func (d *Disk) writeIdentity(r *record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	if err := replaceFile(d.fs, d.directory, identityFile, append(data, '\n')); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}
