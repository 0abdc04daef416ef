// Package directed draws schedules in which something rare is likely, and which are general in their seeds.
package directed

import (
	"slices"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Kind is a kind of such schedules.
type Kind struct {
	Name      string
	Protocols []string // by the names of their variants; nil: all that have no masters
	Members   []int    // how many its schedules have; nil: as many as others of the protocol
	Is        string
	draw      func(seed uint64, options schedule.Options) schedule.Schedule
}

// The protocols of which members of a quorum store registers, those whose operations are ordered by instances, and
// those that have masters or leaders; written are those with plain writes.
var (
	registers = []string{"abd", "caspaxos", "gryff", "gus", "rmwpaxos"}
	quorums   = append([]string{"epaxos"}, registers...)
	rounds    = []string{"caspaxos", "rmwpaxos"}
	written   = []string{"abd", "epaxos", "gryff", "gryffrsc", "gus", "rmwpaxos"}
	instances = []string{"epaxos", "epaxos-small", "gryff"}
	leaders   = []string{"curpraft", "raft"}
	masters   = []string{"curp"}
	sessions  = []string{"caspaxos", "curpraft", "epaxos", "gryff", "raft", "rmwpaxos"}
	fragments = []string{"gus-fragments"}
)

// kinds are all kinds, by what they are about.
var kinds = []Kind{
	{"lost-masters", masters, threeOrFive, "masters are lost with much that only witnesses have", of(LostMasters)},
	{"masters-back", masters, threeOrFive, "a lost master is back while another one recovers its term", of(MastersBack)},
	{"updates-followed", masters, threeOrFive, "one site updates a key all the time, and masters are lost", of(UpdatesFollowed)},
	{"suspended-masters", masters, threeOrFive, "the machine of a master is suspended", of(SuspendedMasters)},
	{"no-backups", masters, threeOrFive, "a master without backups crashes", of(NoBackups)},
	{"empty-disks", masters, threeOrFive, "a member loses its disk shortly before the master is lost", of(EmptyDisks)},
	{"copies-in-pages", masters, threeOrFive, "the same with a state of many pages", of(CopiesInPages)},
	{"late-questions", masters, threeOrFive, "who copies the state asks for pages late and twice", of(LateQuestions)},
	{"lost-quorums", masters, nil, "a quorum is lost for good, and given up", of(LostQuorums)},
	{"splits", masters, nil, "partitions are split", of(Splits)},
	{"splits-forgotten", masters, threeOrFive, "partitions are split in a view that is forgotten", of(SplitsForgotten)},

	{"leases-cut-off", masters, threeOrFive, "who reads under a lease is cut off, and masters follow it", of(LeasesCutOff)},
	{"replaced-under-leases", masters, threeOrFive, "the same, and nobody stops", of(ReplacedUnderLeases)},
	{"backups-on-both-sides", masters, five, "a master is cut off with one of two backups", of(BackupsOnBothSides)},
	{"leases-heard-late", masters, threeOrFive, "a master that stood still hears old answers", of(LeasesHeardLate)},
	{"leases-on-slow-disks", masters, threeOrFive, "leases end within a few writes of disks", of(LeasesOnSlowDisks)},
	{
		"leases-of-former-processes", masters, threeOrFive, "who reads under a lease restarts, and hears late of the lease",
		of(LeasesOfFormerProcesses),
	},
	{"backup-reads", masters, threeOrFive, "backups are read while messages are lost and late", of(BackupReads)},

	{"old-witnesses", masters, five, "a witness's disk goes back before a master is lost", oldWitnesses(faults.WitnessCopy)},
	{"old-volumes", masters, five, "so does the volume that it shares with a member", oldWitnesses(faults.VolumeCopy)},
	{"old-members", masters, nil, "disks of members go back", oldCopies(faults.OldCopy)},
	{"old-members-and-witnesses", masters, nil, "volumes of members and witnesses go back", oldCopies(faults.VolumeCopy)},
	{"false-alarms", masters, threeOrFive, "witnesses are replaced that live on", of(FalseAlarms)},
	{"views-told-to-few", masters, five, "the record of a view is lost that few hold", of(ViewsToldToFew)},
	{"witnesses-asked-twice", masters, threeOrFive, "slow witnesses get requests twice, and all lose power", of(WitnessesAskedTwice)},
	{"witnesses-restarted", masters, threeOrFive, "witnesses restart on the side of a former master", of(WitnessesRestarted)},

	{"sessions-forgotten", masters, threeOrFive, "sessions are soon forgotten, and requests come late", of(SessionsForgotten)},
	{"sessions-back-at-masters", masters, threeOrFive, "forgotten sessions of several clients come back", of(SessionsBackAtMasters)},
	{"sessions-back", sessions, three, "the same without masters", of(SessionsBack)},
	{"sessions-out-of-order", sessions, three, "requests of a session come in another order", of(SessionsOutOfOrder)},
	{"half-writes", []string{"gryffrsc"}, five, "a session has read a write that few hold", of(HalfWrites)},
	{"half-writes-in-shards", []string{"gryffrsc"}, five, "the same with keys of two shards", of(HalfWritesInShards)},
	{"half-writes-joined", []string{"gryffrsc"}, five, "the same, and it depends on two of them, of two shards", of(HalfWritesJoined)},
	{"half-writes-overwritten", []string{"gryffrsc"}, five, "the same, and another one writes before its disk has that", of(HalfWritesOverwritten)},
	{"half-writes-read-on", []string{"gryffrsc"}, five, "the same, and another one writes meanwhile", of(HalfWritesReadOn)},
	{"half-writes-on-slow-disks", []string{"gryffrsc"}, five, "the same with disks slower than messages", of(HalfWritesOnSlowDisks)},

	{"lost-leaders", nil, nil, "a member is lost, perhaps with others, after few have heard it", LostLeaders},
	{"states-in-pages", nil, nil, "who was away gets the state in many pages, of which some are lost", StatesInPages},
	{"stopped-while-asking", nil, nil, "who has just started and asks others stops again, before they answer", StoppedWhileAsking},
	{"asked-again", nil, nil, "members ask again long before they could have been answered", AskedAgain},
	{"leaders-heard-by-one", leaders, five, "one other hears a leader, and clients at both go on", of(LeadersHeardByOne)},
	{"leaders-hardly-heard", leaders, threeOrFive, "one other at most hears a leader", of(LeadersHardlyHeard)},
	{"leaders-cut-off", leaders, threeOrFive, "a leader appends what nobody hears, others go on, and logs are short", of(LeadersCutOff)},

	{"holders-gone", registers, five, "an acknowledgement arrives after its disk is lost", of(HoldersGone)},
	{"lost-acknowledgements", quorums, five, "who acknowledges loses its disk, and is back among others", of(LostAcknowledgements)},
	{"writers-back", registers, three, "a writer crashes before its write is on its disk, and writes again", of(WritersBack)},
	{"tags-preempted", []string{"gus"}, five, "a writer takes another tag while others decide the first", of(TagsPreempted)},
	{"tags-outvoted", []string{"gus"}, five, "the same, and both have votes", of(TagsOutvoted)},
	{"tags-taken-again", []string{"gus"}, five, "the same, and the writer writes again", of(TagsTakenAgain)},
	{"own-writes-passed", []string{"gus"}, five, "a member lets writes pass its own one after another has ended", of(OwnWritesPassed)},
	{"own-writes-decided", []string{"gus"}, five, "the same after others have decided its own one", of(OwnWritesDecided)},
	{"votes-that-lose", []string{"gus"}, four, "a vote makes a tag stale, and loses after a change", of(VotesThatLose)},

	{"writes-forgotten", []string{"gus"}, four, "four members forget writes that others ask about", forgotten(4)},
	{"writes-forgotten-by-seven", []string{"gus-relaxed"}, seven, "so do seven with relaxed quorums", forgotten(7)},

	{"promises-forgotten", rounds, three, "a proposer crashes before its promise is on its disk", of(PromisesForgotten)},
	{"votes-copied", rounds, five, "who has lost its disk copies what a minority has voted for", of(VotesCopied)},
	{"votes-of-formers", rounds, five, "members leave, so that a minority that has voted is none", of(VotesOfFormers)},
	{
		"one-key-contended", append([]string{"epaxos", "gryff", "gryffrsc"}, rounds...), three,
		"all update one key all the time", of(OneKeyContended),
	},
	{"one-key-written", written, three, "all write one key all the time", of(OneKeyWritten)},

	{"duels", instances, three, "two recover an instance in turn", of(Duels)},
	{"interfering-duels", instances, three, "the same with attributes that differ", of(InterferingDuels)},
	{"duels-of-five", instances, five, "the same with five members", of(DuelsOfFive)},
	{"commits-unheard", instances, five, "a commit is not heard, nor one who may have voted", of(CommitsUnheard)},
	{"answered-while-open", instances, five, "writes are answered before what they depend on is committed", of(AnsweredWhileOpen)},
	{"first-of-keys", instances, five, "all begin the first instance of each of many keys at once", of(FirstOfKeys)},
	{"votes-of-lost-disks", instances, five, "who agrees loses its disk, and is back among others", of(VotesOfLostDisks)},
	{"numbers-reused", instances, five, "a coordinator loses its disk with its instance's number", of(NumbersReused)},
	{"commits-lost", instances, three, "a coordinator loses its disk with its commit", of(CommitsLost)},
	{"promises-of-lost-disks", instances, five, "who took part in a recovery loses its disk", of(PromisesOfLostDisks)},

	{"all-exchanged", fragments, five, "all members are exchanged, and some of the new ones are cut off", of(AllExchanged)},
	{"disks-lost-in-turn", fragments, five, "disks are lost one after the other while a member lacks fragments", of(DisksLostInTurn)},
	{"fragments-misread", fragments, five, "a disk gives other fragments than it has", of(FragmentsMisread)},
	{"metadata-at-few", fragments, five, "metadata is at few when the writer crashes, and nobody reads", of(MetadataAtFew)},

	{"held-back-in-a-change", fragments, five, "a disk with acknowledged fragments is lost, and members change", of(HeldBackInAChange)},

	{"changes-in-turn", quorums, five, "one of five stays in two changes, with a write between them", of(ChangesInTurn)},
	{"left-behind", quorums, three, "who leaves is told late, and read", of(LeftBehind)},
	{"changes-unheard", quorums, three, "who stays is cut off from those who leave", of(ChangesUnheard)},
	{"sides-apart", quorums, three, "those of one side of a joint view are cut off now and then", of(SidesApart)},
	{"slow-and-few", quorums, three, "a lost member is replaced, and one of the other two has slow disks", of(SlowAndFew)},
	{"disks-lost-twice", registers, three, "a member loses a disk, and the next one, in a power failure", of(DisksLostTwice)},
}

// Numbers of members.
var (
	three       = []int{3}
	four        = []int{4}
	five        = []int{5}
	seven       = []int{7}
	threeOrFive = []int{3, 5}
)

// of is a draw that needs no options.
func of(draw func(seed uint64) schedule.Schedule) func(uint64, schedule.Options) schedule.Schedule {
	return func(seed uint64, _ schedule.Options) schedule.Schedule { return draw(seed) }
}

func oldWitnesses(kind faults.Kind) func(uint64, schedule.Options) schedule.Schedule {
	return of(func(seed uint64) schedule.Schedule { return OldWitnesses(seed, kind) })
}

func oldCopies(kind faults.Kind) func(uint64, schedule.Options) schedule.Schedule {
	return of(func(seed uint64) schedule.Schedule { return OldCopies(seed, kind) })
}

func forgotten(members int) func(uint64, schedule.Options) schedule.Schedule {
	return of(func(seed uint64) schedule.Schedule { return WritesForgotten(seed, members) })
}

// Kinds lists all kinds. The caller must not change it.
func Kinds() []Kind { return kinds }

// Of are those of a protocol, by the name of its variant, that have schedules of some numbers of members; nil: of any.
func Of(protocol string, hasMasters bool, members []int) (all []Kind) {
	for _, k := range kinds {
		is := k.Protocols == nil && !hasMasters || slices.Contains(k.Protocols, protocol)
		fits := k.Members == nil || members == nil ||
			slices.ContainsFunc(k.Members, func(n int) bool { return slices.Contains(members, n) })
		if is && fits {
			all = append(all, k)
		}
	}
	return all
}

// Draws are what kinds draw schedules with.
func Draws(all []Kind) (draws []schedule.Directed) {
	for _, k := range all {
		draws = append(draws, k.Draw)
	}
	return draws
}

// Draw is the schedule of a seed with as many members as the options say, or as many as all of its kind have.
func (k Kind) Draw(seed uint64, options schedule.Options) schedule.Schedule {
	if len(k.Members) == 1 {
		return k.draw(seed, options)
	}
	return ofSize(options.Members, seed, func(seed uint64) schedule.Schedule { return k.draw(seed, options) })
}
