// Package member makes a replication protocol safe against lost disks and changes of the view: it decides whether
// this member may vote, stamps and filters incarnations, brings a newcomer up to date before its protocol runs, and
// does the member's part in a joint view while the protocol goes on.
//
// A replica that restarts without the state it acknowledged is a new member: quorums that counted it no
// longer intersect. It takes the next incarnation of its ID, has it adopted by enough others, takes a state
// transfer from just those, and only then votes (docs/design.md, lost disks). A member that joins in a joint view, on
// the empty disk that the view names, votes at once; it fetches the state of those before the change meanwhile
// (docs/protocols.md, changes of the view).
package member

import (
	"fmt"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/position"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Inner is the protocol that a member runs once it may vote. It receives messages of this epoch alone, from other members
// of the view, whose numbers are within bounds.
type Inner interface {
	protocol.Machine
	// Adopt merges a record of another member's journal into this one's: what is newer here stays. A newcomer adopts
	// before anything is submitted or received, a member in a joint view while it goes on.
	// An error says that no sound member has such a record: nothing of it was taken.
	Adopt(key, value []byte) error
	// Settle is called now and then by a newcomer that has everything. It asks the others about the work that
	// was unfinished in the transfer, and reports whether there is none left. Only Executed messages and those of
	// fragments are received meanwhile.
	//
	// The lost disk may have voted on such work, and this one would deny it. On what none of those that
	// adopted this newcomer knew of, the lost disk's votes count nowhere: every quorum with one of them has
	// an adopter's vote too, and that was cast after the adoption and says so.
	Settle(now protocol.Instant) bool
	// Unsettled is how many things this member has voted on, or heard of, in earlier views and that are not finished
	// here yet.
	Unsettled() int
}

// Factory makes an Inner over a journal, which may hold the state of an earlier run.
type Factory func(protocol.Config, *protocol.Journal, *quorum.Incarnations) Inner

// ownPrefix begins the journal keys of the member's own records, which no other member is sent. Protocols use other
// first bytes.
const ownPrefix = 'm'

// recordKey is where the journal holds the MemberRecord.
var recordKey = []byte{ownPrefix}

type state uint8

const (
	querying     state = iota + 1 // empty disk: which incarnation is next?
	transferring                  // adopted by some: fetching their state
	settling                      // waiting for old work to end
	asking                        // just started: is the disk an older copy?
	voting
)

// Member is one member of a cluster, for one shard. It implements protocol.Protocol.
type Member struct {
	config       protocol.Config
	journal      *protocol.Journal
	incarnations *quorum.Incarnations
	factory      Factory
	inner        Inner // nil while querying or asking
	state        state
	now          protocol.Instant

	// A newcomer's progress.
	ask     quorum.Tally
	highest view.Incarnation // of this member, that others know

	transfer transfer

	// The part in a joint view.
	joint     bool
	transfers bool
	settled   claim
	fetched   claim

	disks *position.Disks
	doubt doubt

	effects effects
}

var (
	_ protocol.Protocol = (*Member)(nil)
	_ protocol.Joiner   = (*Member)(nil)
	_ protocol.Thrifty  = (*Member)(nil)
	_ protocol.Keyed    = (*Member)(nil)
)

// Start begins or resumes a member from its journal.
func Start(config protocol.Config, journal *protocol.Journal, factory Factory) (*Member, error) {
	if err := config.View.Validate(); err != nil {
		return nil, err
	}
	if config.View.Index(config.Self) < 0 {
		return nil, fmt.Errorf("member %d is not in the view of epoch %d", config.Self, config.View.Epoch)
	}
	config.Nearest = slices.Clone(config.Nearest) // Prefer changes it
	m := &Member{
		config:       config,
		journal:      journal,
		incarnations: quorum.FirstDisks(config.View),
		factory:      factory,
		joint:        config.View.Joint(), transfers: config.View.Transfers(config.Self),
	}
	m.transfer = transfer{
		pages: pages{journal: journal, bytes: pageBytes(&config)}, throttle: newThrottle(&config), config: &m.config,
		incarnations: m.incarnations, effects: &m.effects, before: config.View.Before(),
		sources: map[view.MemberID]*source{},
	}
	record, found, err := m.load()
	if err == nil {
		err = m.transfer.recall()
	}
	if err == nil {
		m.disks, err = position.New(position.Owner{
			Config: &m.config, Roster: m.incarnations, Journal: journal, Effects: &m.effects.Effects, CountKey: countKey, HeardKey: positionsKey,
		})
	}
	if err != nil {
		return nil, err
	}
	if found {
		m.recall(record)
	}
	if !found && !config.Bootstrap {
		m.state = querying
		config.Took("member.query")
		m.send(m.ask.Ask(&m.config, m.now, len(config.Nearest)), peerv1.Kind_JOIN_QUERY, config.Nonce)
		return m, nil
	}
	m.doubt = doubt{founded: !found, record: record}
	if config.Continued || config.Undoubted || config.View.Size() == 1 {
		m.begin()
		return m, nil
	}
	m.state = asking
	m.disks.Ask()
	return m, nil
}

// begin goes on with what the disk holds, or founds it.
func (m *Member) begin() {
	record := m.doubt.record
	if record == nil {
		m.becomeVoter()
		return
	}
	m.inner = m.factory(m.config, m.journal, m.incarnations)
	if record.Epoch < m.config.View.Epoch {
		m.save(record.Voter)
	}
	if record.Voter {
		m.state = voting
		m.forgetTransfer()
	} else {
		m.beginTransfer()
	}
}

// Voter implements protocol.Joiner.
func (m *Member) Voter() bool { return m.state == voting }

// Incarnation implements protocol.Joiner.
func (m *Member) Incarnation() view.Incarnation { return m.incarnations.Of(m.config.Self) }

// Pending implements protocol.Machine. What a newcomer has fetched is nothing that it holds up.
func (m *Member) Pending() int {
	if m.state == voting {
		return m.inner.Pending()
	}
	return 0
}

// RecordsOf implements protocol.Keyed: who does not vote keeps what comes until then, or refuses it.
func (m *Member) RecordsOf(kind register.Kind) string { return m.keyed().RecordsOf(kind) }

// RecordsFor implements protocol.Keyed.
func (m *Member) RecordsFor(msg *peerv1.Message) string { return m.keyed().RecordsFor(msg) }

func (m *Member) keyed() protocol.Keyed {
	if m.state != voting {
		return protocol.KeyedOf(nil)
	}
	return protocol.KeyedOf(m.inner)
}

// Prefer implements protocol.Thrifty.
func (m *Member) Prefer(nearest []view.MemberID) {
	copy(m.config.Nearest, nearest) // in place: the inner protocol's configuration shares it
}

// Pace implements protocol.Machine.
func (m *Member) Pace(retry, suspect time.Duration) {
	m.config.Retry, m.config.Suspect = retry, suspect
	if m.inner != nil {
		m.inner.Pace(retry, suspect)
	}
}

// Submit implements protocol.Machine.
func (m *Member) Submit(r protocol.Request) {
	switch m.state {
	case voting:
		m.inner.Submit(r)
		return
	case asking:
		m.doubt.requests = append(m.doubt.requests, r)
		return
	}
	m.effects.complete(r.Handle, register.Result{
		Status:  register.Unavailable,
		Message: "this member has an empty disk and is still fetching the state from the others",
	})
}

// Receive implements protocol.Machine.
func (m *Member) Receive(from view.MemberID, msg *peerv1.Message) {
	if m.config.View.Index(from) < 0 || from == m.config.Self {
		return
	}
	if msg.Epoch != m.config.View.Epoch {
		m.config.Took("member.other-epoch")
		return // quorums of two views need not meet
	}
	if err := bounds.Message(msg); err != nil {
		m.effects.refuse(from, err)
		m.config.Took("member.above-bound")
		return // nobody can have counted so far: nothing could come after it
	}
	incarnation := view.Incarnation(max(msg.Incarnation, 1))
	// Who joins does not know yet how many disks it has had: it asks for that. So may one whose disk was put back.
	if incarnation < m.incarnations.Of(from) && msg.Kind != peerv1.Kind_JOIN_QUERY && msg.Kind != peerv1.Kind_POSITION_QUERY {
		m.config.Took("member.dead-incarnation")
		return // a disk that is gone speaks
	}
	if len(msg.Known) == m.config.View.Size() {
		if i := m.config.View.Index(m.config.Self); m.state != querying && view.Incarnation(msg.Known[i]) > m.Incarnation() {
			if m.state == asking {
				m.disks.Compare(from, position.Position{Incarnation: view.Incarnation(msg.Known[i])})
				return
			}
			m.effects.Fault = fmt.Errorf("another disk has taken the place of member %d; this one, its number %d, must not go on", m.config.Self, m.Incarnation())
			return
		}
		m.incarnations.Merge(msg.Known)
	}
	m.incarnations.Learn(from, incarnation)
	m.disks.Hear(from, incarnation, msg)
	switch msg.Kind {
	case peerv1.Kind_POSITION:
	case peerv1.Kind_POSITION_QUERY: // a newcomer has nothing to say: what its lost disk had heard is gone
		if m.state == voting || m.state == asking && (m.doubt.founded || m.doubt.record.Voter) {
			m.disks.Answer(from, msg, m.disks.Of(from))
		}
	case peerv1.Kind_POSITION_REPLY:
		if m.disks.OnReply(from, msg) {
			m.trust()
		}
	case peerv1.Kind_JOIN_QUERY, peerv1.Kind_ADOPT, peerv1.Kind_TRANSFER:
		if m.state == voting {
			m.serve(from, msg)
		}
	case peerv1.Kind_JOIN_QUERY_REPLY, peerv1.Kind_ADOPT_OK, peerv1.Kind_TRANSFER_PAGE:
		m.disks.Learn(msg.Positions)
		switch {
		case m.state == asking:
		case m.state != voting:
			m.join(from, msg)
		case msg.Kind == peerv1.Kind_TRANSFER_PAGE && m.fetches():
			m.take(from, msg)
		}
	default:
		settles := msg.Kind == peerv1.Kind_EXECUTED || msg.Fragment != nil
		switch {
		case m.state == voting, m.state == settling && settles:
			m.inner.Receive(from, msg)
		case m.state == asking && !settles && len(m.doubt.messages) < heldMessages:
			m.doubt.messages = append(m.doubt.messages, heard{from, msg})
		}
	}
}

// Tick implements protocol.Machine.
func (m *Member) Tick(now protocol.Instant) {
	m.now = now
	m.tickDoubt()
	m.disks.Tell()
	switch m.state {
	case asking:
	case voting:
		m.inner.Tick(now)
		m.participate()
	case settling:
		m.settle()
	default:
		m.askAgain()
	}
}

// Ready implements protocol.Machine. Messages are stamped here, after everything that this turn learned: an
// answer may seem to know more than it did, which only makes others drop more, never count more.
func (m *Member) Ready() protocol.Effects {
	if m.state != querying && m.state != asking {
		m.disks.Note()
	}
	var e protocol.Effects
	if m.inner != nil {
		e = m.inner.Ready()
	}
	e.Add(&m.effects.Effects)
	m.effects = effects{}
	e.Persist.Add(m.journal.Take()) // after the inner protocol's mutations
	if e.Fault != nil {
		return protocol.Effects{Fault: e.Fault} // nothing of a broken turn may last or leave
	}
	m.disks.Add(&e.Persist)
	durable, taken := m.journal.Counted()
	m.stamp(e.Send, durable)
	m.stamp(e.SendAfterPersist, taken)
	return e
}

// stamp says who speaks, for a disk with so many batches.
func (m *Member) stamp(envelopes []protocol.Envelope, batches uint64) {
	vector := m.incarnations.Vector()
	incarnation := uint32(m.Incarnation())
	if vector == nil || incarnation == 1 {
		incarnation = 0
	}
	numbered := m.numbered()
	for _, e := range envelopes {
		e.Message.Epoch = m.config.View.Epoch
		e.Message.Incarnation = incarnation
		e.Message.Known = vector
		if numbered {
			m.disks.Stamp(e.Message, batches)
		}
	}
}

// numbered reports whether the incarnation is this disk's for good. One that has not been adopted by enough others may
// be given to the next disk, if this one is lost, too: whoever had heard how far this one was would take that for an
// older copy of it.
func (m *Member) numbered() bool {
	switch m.state {
	case querying:
		return false
	case transferring:
		return m.enough(&m.ask)
	case asking:
		return m.doubt.founded || m.doubt.record.Voter
	}
	return true
}

func (m *Member) load() (*peerv1.MemberRecord, bool, error) {
	raw, ok := m.journal.Get(recordKey)
	if !ok {
		return nil, false, nil
	}
	record := &peerv1.MemberRecord{}
	if err := bounds.Decode(raw, record, bounds.Record); err != nil {
		return nil, false, fmt.Errorf("the member record on disk is damaged: %w", err)
	}
	if record.Epoch > m.config.View.Epoch {
		return nil, false, fmt.Errorf("this disk has been in the view of epoch %d and must not go back to epoch %d; start it with the newer view",
			record.Epoch, m.config.View.Epoch)
	}
	if len(record.Known) > 0 && len(record.Known) != len(record.Members) {
		return nil, false, fmt.Errorf("the member record on disk is damaged: it knows %d incarnations of %d members", len(record.Known), len(record.Members))
	}
	return record, true, nil
}

// recall learns what a record knows, by ID: the view may be another one since. A member that is gone from it
// has nothing to say any more, and one that came has had no disk yet.
func (m *Member) recall(record *peerv1.MemberRecord) {
	for i, incarnation := range record.Known {
		m.incarnations.Learn(view.MemberID(record.Members[i]), view.Incarnation(incarnation))
	}
	m.incarnations.Learn(m.config.Self, view.Incarnation(record.Incarnation))
}

// save writes the member's record, with all incarnations that it knows.
func (m *Member) save(voter bool) {
	record := &peerv1.MemberRecord{
		Incarnation: uint32(m.Incarnation()), Voter: voter, Known: m.incarnations.Vector(), Epoch: m.config.View.Epoch,
	}
	for _, member := range m.config.View.Members {
		record.Members = append(record.Members, uint32(member.ID))
	}
	m.effects.put(m.journal, recordKey, record, "member record")
}

func (m *Member) becomeVoter() {
	m.state = voting
	m.save(true)
	m.forgetTransfer()
	m.disks.Keep()
	if m.inner == nil {
		m.inner = m.factory(m.config, m.journal, m.incarnations)
	}
	m.inner.Tick(m.now)
}

// settle ends a newcomer's join once nothing is left of what its lost disk may have voted on.
func (m *Member) settle() {
	if m.inner.Settle(m.now) {
		m.config.Took("member.join")
		m.becomeVoter()
	}
}
