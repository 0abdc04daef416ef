package wire

import (
	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/view"
)

func partitionToProto(p view.Partition) *adminv1.Partition {
	message := &adminv1.Partition{
		Term: p.Term, Master: uint32(p.Master), Backups: Numbers(p.Backups), Witnesses: Numbers(p.Witnesses),
		Empty: p.Empty, Split: p.Split,
	}
	for _, f := range p.Formers {
		message.Formers = append(message.Formers, &adminv1.Partition{
			Term: f.Term, Master: uint32(f.Master), Backups: Numbers(f.Backups), Witnesses: Numbers(f.Witnesses),
		})
	}
	return message
}

func partitionFromProto(message *adminv1.Partition) view.Partition {
	p := view.Partition{
		Term: message.GetTerm(), Master: view.MemberID(message.GetMaster()),
		Backups: IDs(message.GetBackups()), Witnesses: IDs(message.GetWitnesses()),
		Empty: message.GetEmpty(), Split: message.GetSplit(),
	}
	for _, f := range message.GetFormers() {
		p.Formers = append(p.Formers, view.Former{
			Term: f.GetTerm(), Master: view.MemberID(f.GetMaster()),
			Backups: IDs(f.GetBackups()), Witnesses: IDs(f.GetWitnesses()),
		})
	}
	return p
}

// Numbers are IDs as messages have them.
func Numbers(ids []view.MemberID) []uint32 { return convert[uint32](ids) }

// IDs are what messages have as numbers.
func IDs(numbers []uint32) []view.MemberID { return convert[view.MemberID](numbers) }

func convert[To, From ~uint32](from []From) (to []To) {
	for _, n := range from {
		to = append(to, To(n))
	}
	return to
}
