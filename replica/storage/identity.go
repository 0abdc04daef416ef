package storage

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/view"
)

// DiskVersion is the layout of the directory that this code writes. Another one is refused.
const DiskVersion = 1

// identityFile is a file of its own, not a record of the database: it must be readable before a database
// that may have to be wiped is opened, and by people.
const identityFile = "IDENTITY"

// Identity says whose disk this is. It is written when the disk is used first, and never changes.
type Identity struct {
	Cluster  string        `json:"cluster"`
	Member   view.MemberID `json:"member"`
	Protocol string        `json:"protocol"`
	Shards   int           `json:"shards"`
}

// ErrForeign is what Open wraps when the disk belongs to somebody else.
var ErrForeign = errors.New("the disk belongs to another member")

// record is the identity and the state of the disk, as it lies in identityFile.
type record struct {
	DiskVersion int `json:"disk_version"`
	Identity
	// Disk names this disk, at random, so that a view can say which empty disk it was founded on. A disk that
	// lost its state is another one.
	Disk string `json:"disk"`
	// Boot counts the starts; it is durable before the process that it counts does anything.
	Boot uint32 `json:"boot"`
	// Durability is that of the latest start: it says what an unclean stop cost.
	Durability Durability `json:"durability"`
	// Clean says that the latest process stopped in order, with everything on disk.
	Clean bool `json:"clean"`
	// Lost says that an earlier state of this member was lost: its disk never votes just because the
	// cluster is being created.
	Lost bool `json:"lost"`
}

// check refuses a disk that is not the wanted one, naming what differs.
func (r *record) check(want Identity) error {
	for _, f := range []struct {
		field     string
		got, want any
	}{
		{"cluster", r.Cluster, want.Cluster},
		{"member", r.Member, want.Member},
		{"protocol", r.Protocol, want.Protocol},
		{"shards", r.Shards, want.Shards},
	} {
		if f.got != f.want {
			return fmt.Errorf("%w: its %s is %v, this member's is %v; give the member its own directory",
				ErrForeign, f.field, f.got, f.want)
		}
	}
	return nil
}

// newDisk names the disk anew.
func (r *record) newDisk() {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails, says its documentation
	r.Disk = hex.EncodeToString(name[:])
}

// lose notes that the state is gone.
func (r *record) lose() {
	r.Lost = true
	r.newDisk()
}

// stateLost reports whether the latest stop may have lost something that was acknowledged.
func (r *record) stateLost() bool {
	switch r.Durability {
	case Sync:
		return false
	case Interval:
		return !r.Clean
	}
	return true
}

// readRecord returns nil without an error if there is none.
func readRecord(fs vfs.FS, directory string) (*record, error) {
	path := fs.PathJoin(directory, identityFile)
	data, err := readFile(fs, path)
	if data == nil || err != nil {
		return nil, err
	}
	var version struct {
		DiskVersion int `json:"disk_version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("identity %s is damaged: %w", path, err)
	}
	if version.DiskVersion != DiskVersion {
		return nil, fmt.Errorf("identity %s: disk version %d is not %d, the one of this program", path, version.DiskVersion, DiskVersion)
	}
	r := &record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("identity %s is damaged: %w", path, err)
	}
	return r, nil
}

// readFile returns nil without an error if there is no such file.
func readFile(fs vfs.FS, path string) ([]byte, error) {
	file, err := fs.Open(path)
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
	return data, nil // not nil, even if it is empty
}

// writeRecord replaces the record as a whole and returns when that is durable.
func writeRecord(fs vfs.FS, directory string, r *record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	if err := replaceFile(fs, directory, identityFile, append(data, '\n')); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// replaceFile makes data the content of a file, as a whole, and returns when that is durable.
func replaceFile(fs vfs.FS, directory, name string, data []byte) error {
	path := fs.PathJoin(directory, name)
	if err := writeFile(fs, path+".new", data); err != nil {
		return err
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDirectory(fs, directory)
}

func writeFile(fs vfs.FS, path string, data []byte) error {
	file, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// makeDirectory makes a directory and what is missing above it, each durable in its parent.
func makeDirectory(fs vfs.FS, path string) error {
	if info, err := fs.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is no directory", path)
		}
		return nil
	}
	parent := fs.PathDir(path)
	if parent == path {
		return nil
	}
	if err := makeDirectory(fs, parent); err != nil {
		return err
	}
	if err := fs.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return syncDirectory(fs, parent)
}

func syncDirectory(fs vfs.FS, directory string) error {
	d, err := fs.OpenDir(directory)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", directory, err)
	}
	return nil
}
