package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/georegister/georegister/replica/durable"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// DiskVersion is the layout of the directory that this code writes. Another one is refused.
const DiskVersion = 3

// identityFile is a file of its own, not a record of the database: it must be readable before a database
// that may have to be set aside is opened, and by people.
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
	// Commit is the number of a commit that the database holds, as all before it. 0: no database was made under this
	// disk's name yet, and whatever lies there is none.
	Commit uint64 `json:"commit"`
	// Epoch is that of a view that was saved; an older one is not the latest.
	Epoch uint64 `json:"epoch"`
	// Damage is what was found while a process ran, which then ended: the next start takes the disk for lost.
	Damage string `json:"damage,omitempty"`
	// Loss is the latest one.
	Loss *Loss `json:"loss,omitempty"`
}

// Loss is the story of a disk that was damaged, and that this one took the place of.
type Loss struct {
	Cause string `json:"cause"` // for people
	// Aside is the directory that keeps what was left of the damaged disk, until the member votes again; empty: there
	// was nothing, or it is gone.
	Aside string `json:"aside,omitempty"`
	Over  bool   `json:"over"` // the member votes again
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

// owner is what seeds the checksums of this disk's records: none of another disk are taken for its own.
func (r *record) owner() string { return fmt.Sprintf("%s/%d/%s", r.Cluster, r.Member, r.Disk) }

func (r *record) seed() uint64 { return durable.Seed(r.owner()) }

// maxBoot bounds the starts of a disk: members tell each other of them in numbers that have 32 more bits (package
// position). A start every ten seconds takes five years to it.
const maxBoot = register.MaxNumber>>32 - 1

// checkBoot reports that no start can follow those that were counted.
func (r *record) checkBoot() error {
	if r.Boot < maxBoot {
		return nil
	}
	return fmt.Errorf("%s is %w: it counts %d starts, and %d are the most: %w", identityFile, durable.ErrDamaged,
		r.Boot, uint32(maxBoot), register.ErrNumber)
}

// lose notes that the state is gone, and gives what follows another name.
func (r *record) lose() {
	r.Lost, r.Clean, r.Commit, r.Damage = true, false, 0, ""
	r.Disk = durable.NewName()
	if r.Boot >= maxBoot {
		r.Boot = 0
	}
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
	r := &record{}
	found, err := durable.ReadDocument(fs, directory, identityFile, DiskVersion, r)
	if err != nil || !found {
		return nil, err
	}
	return r, nil
}

// writeRecord replaces the record as a whole and returns when that is durable.
func writeRecord(fs vfs.FS, directory string, r *record) error {
	return durable.WriteDocument(fs, directory, identityFile, DiskVersion, r)
}
