package core

import (
	"fmt"
	"slices"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
)

// A witness that starts can't tell whether its disk is an older copy of what it was: all that is on it is in order. So
// its answers say how many promises it has made in a partition, over the whole life of its disk; members remember the
// most that they have heard, and tell each other. After a start the witness promises nothing before a majority of
// members has told it that it had promised no more than its disk knows of. Requests that were saved, lives that were
// frozen, and those that must not begin any more are promises. The begin and the end of a life are none: a life that is
// not there accepts nothing, and what it holds is of no use any more when it ends.

// Forgotten is why a witness can't go on: its disk is an older copy of what it was, and lost.
type Forgotten struct {
	By          uint32 // the member that tells
	Partition   uint32
	Heard, Kept uint64 // promises
}

func (f *Forgotten) Error() string {
	return fmt.Sprintf("this witness's disk has forgotten what it held, and is lost: member %d has heard that it "+
		"made %d promises in partition %d, and it knows of %d",
		f.By, f.Heard, f.Partition, f.Kept)
}

// vouchers are the members that have vouched for a partition, by the views that they are in: only those of one view
// make a majority.
type vouchers struct {
	views   []voucher
	trusted bool
}

type voucher struct {
	view    uint64 // its digest
	members []uint32
}

// Doubts reports whether it is not known yet that the disk has all that was promised in a partition.
func (w *Witness) Doubts(number uint32) bool {
	return w.config.Start != 0 && !w.partition(number).vouchers.trusted
}

// vouch takes what a member has heard.
func (w *Witness) vouch(from uint32, m *witnessv1.Message) {
	meant := m.Start == w.config.Start && (w.config.Disk == "" || m.Disk == w.config.Disk)
	if !meant || from == Manager || m.Voters == 0 || m.Promises > witnessv1.MaxPromises ||
		m.Partition >= maxPartitions || !w.Doubts(m.Partition) {
		w.stats.Ignored++
		return
	}
	p := w.raise(m.Partition, 0)
	if m.Promises > p.promises {
		w.forgotten = &Forgotten{By: from, Partition: m.Partition, Heard: m.Promises, Kept: p.promises}
		return
	}
	i := slices.IndexFunc(p.vouchers.views, func(v voucher) bool { return v.view == m.View })
	if i < 0 {
		i = len(p.vouchers.views)
		p.vouchers.views = append(p.vouchers.views, voucher{view: m.View})
	}
	v := &p.vouchers.views[i]
	if !slices.Contains(v.members, from) {
		v.members = append(v.members, from)
	}
	if len(v.members) > int(m.Voters/2) {
		p.vouchers = vouchers{trusted: true}
	}
}

// Promises is how many promises were made in a partition, over the whole life of the disk.
func (w *Witness) Promises(number uint32) uint64 { return w.partition(number).promises }
