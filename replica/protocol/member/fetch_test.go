package member_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/view"
)

// A newcomer copies the nearest member before the change, and of the next one what differs.
func TestNewcomerFetchesAMajority(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.nodes[1].disk[keyOf(7)] = value(7, 2)
	w.nodes[2].disk[keyOf(150)] = value(150, 3)
	w.nodes[2].disk["r-only here"] = []byte("x")
	w.start(1, 2, 3, 4)
	if c := w.change(4); !c.Joint || !c.Transfers || c.Fetched || c.Settled {
		t.Errorf("at first %+v", c)
	}
	if c := w.change(1); !c.Joint || c.Transfers {
		t.Errorf("a member that stays is told %+v", c)
	}
	w.untilFetched(4)
	want := bare(w.nodes[1].disk)
	want[keyOf(150)], want["r-only here"] = value(150, 3), []byte("x")
	if got := bare(w.nodes[4].disk); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d records were fetched, want %d, or they differ", len(got), len(want))
	}
	if n := len(w.pages(4, 3)); n > 0 {
		t.Errorf("%d pages of a third member, though two are a majority", n)
	}
	// Of three records of the second one there was another version here, or none.
	if got := names(w.pages(4, 2)); !slices.Equal(got, []string{"r-only here", keyOf(7), keyOf(150)}) {
		t.Errorf("the second member sent %q", got)
	}
	whole, rest, c := size(w.pages(4, 1)), size(w.pages(4, 2)), w.change(4)
	if !c.Settled || c.Bytes != whole+rest || c.SameBytes != (records-2)*(recordBytes+6) || c.Remaining != 0 || c.Records != records+3 {
		t.Errorf("at the end %+v; sent %d and %d", c, whole, rest)
	}
}

// Also where clients write meanwhile, and the sources differ all over.
func TestOnlyWhatDiffersIsSent(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	here, there := 0, 0
	for i := range records {
		switch i % 7 {
		case 0: // the newcomer hears of it by itself
			for _, id := range []view.MemberID{1, 2, 4} {
				w.nodes[id].disk[keyOf(i)] = value(i, 2)
			}
			here++
		case 1: // so did one that is in the way of what the second one does not have
			delete(w.nodes[2].disk, keyOf(i))
		case 2: // a difference in the value alone
			w.nodes[2].disk[keyOf(i)][recordBytes]++
			there++
		case 3:
			w.nodes[2].disk[keyOf(i)+"+"] = value(i, 1)
			there++
		}
	}
	w.start(1, 2, 3, 4)
	w.untilFetched(4)
	if first, second := len(names(w.pages(4, 1))), len(names(w.pages(4, 2))); first != records-here || second != there {
		t.Errorf("%d and %d records were sent, want %d and %d", first, second, records-here, there)
	}
	for i := range records {
		want := w.nodes[1].disk[keyOf(i)]
		if i%7 == 2 {
			want = w.nodes[2].disk[keyOf(i)]
		}
		if !bytes.Equal(w.nodes[4].disk[keyOf(i)], want) {
			t.Errorf("record %d is not what the newest source has", i)
		}
	}
}

// Sources are asked at the same time, and one that is silent holds up none.
func TestSourcesWorkSideBySide(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.nodes[4].config.TransferRate = 256 << 10
	w.start(1, 2, 3, 4)
	w.until("the second one has compared", func() bool { return w.change(4).SameBytes > 0 })
	if n := len(names(w.pages(4, 1))); n == records {
		t.Error("the second one waited for the first to end")
	}
	w.lose = func(p packet) bool { return p.from == 1 || p.from == 3 }
	w.until("the second one goes on alone", func() bool { return w.nodes[4].disk[keyOf(records-1)] != nil })
	w.lose = nil
	w.untilFetched(4)
	if whole := size(w.pages(4, 0)); whole > records*(recordBytes+6)*3/2 {
		t.Errorf("%d bytes of %d were sent", whole, records*(recordBytes+6))
	}
}

// The end of a damaged list is not taken for a print. What is not known to be there is sent.
func TestDamagedPrintsSayNothing(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.nodes[1].disk = protocoltest.Disk{"r1": []byte("1"), "r2": []byte("2")}
	w.nodes[4].disk = protocoltest.Disk{"r1": []byte("1"), "r2": []byte("2")}
	w.start(1, 4)
	w.nodes[4].member.Tick(1)
	asked := w.nodes[4].member.Ready().SendAfterPersist[0].Message
	if n := len(asked.Transfer.Prints); n != 2*16 {
		t.Fatalf("two records have prints of %d bytes", n)
	}
	for damage, want := range map[int]int{0: 0, 1: 2, 15: 2, 16: 1, 31: 2, 32: 2} { // each is checked on its own
		broken := asked.CloneVT()
		broken.Transfer.Prints = broken.Transfer.Prints[damage:]
		w.nodes[1].member.Receive(4, broken)
		page := w.nodes[1].member.Ready().SendAfterPersist[0].Message.Transfer
		if len(page.Records) != want || !page.Last {
			t.Errorf("without %d bytes of the prints, %d records are sent, want %d", damage, len(page.Records), want)
		}
	}
}

// With two of three members left, one of them may hold alone what a majority of the three acknowledged.
func TestMemberThatStaysCountsItself(t *testing.T) {
	v := view.View{Cluster: "test", Epoch: 2, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3, Leaving: true}}}
	w := newWorld(t, v)
	w.fill(2)
	w.start(1, 2, 3)
	w.untilFetched(1)
	w.untilFetched(2)
	if n := len(w.pages(1, 3)) + len(w.pages(2, 3)); n > 0 {
		t.Errorf("%d pages of member 3, though each of the others has fetched from the other", n)
	}
	if !maps.EqualFunc(bare(w.nodes[1].disk), bare(w.nodes[2].disk), bytes.Equal) {
		t.Error("they do not hold the same")
	}
}

// Newcomers were in no quorum yet: what they hold counts for nothing.
func TestNewcomersAreNoSources(t *testing.T) {
	v := replacing(2)
	v.Members = append(v.Members, view.Member{ID: 5, Joining: true})
	w := newWorld(t, v)
	w.fill(1, 2)
	w.nodes[5].config.Nearest = []view.MemberID{4, 1, 2, 3}
	w.start(1, 2, 4, 5)
	w.untilFetched(5)
	if n := len(w.pages(5, 4)); n > 0 {
		t.Errorf("%d pages of a newcomer", n)
	}
}

func TestMemberInAPlainViewHasNoPart(t *testing.T) {
	w := newWorld(t, replacing(2).Before())
	w.start(1, 2, 3)
	for range 20 {
		w.step()
	}
	if c := w.change(1); c != (protocol.Change{}) || slices.ContainsFunc(w.sent, func(p packet) bool { return p.message.Kind != peerv1.Kind_POSITION }) {
		t.Errorf("%+v, %d messages", c, len(w.sent))
	}
}

func TestWhatIsNewerHereStays(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.nodes[4].config.TransferRate = 64 << 10
	w.start(1, 2, 3, 4)
	w.until("some pages", func() bool { return w.change(4).Bytes > 0 })
	for _, i := range []int{0, 100, records - 1} { // before, about at, and behind what came
		w.nodes[4].journal.Put([]byte(keyOf(i)), value(i, 9))
	}
	w.untilFetched(4)
	for i := range records {
		want := value(i, 1)
		if i == 0 || i == 100 || i == records-1 {
			want = value(i, 9)
		}
		if got := w.nodes[4].disk[keyOf(i)]; !bytes.Equal(got, want) {
			t.Errorf("record %d is of version %d", i, got[0])
		}
	}
}

// What a member knows of itself is no state: it is neither sent nor compared.
func TestOwnRecordsStayAtHome(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.nodes[1].disk["m~"], w.nodes[2].disk["m~"] = []byte("of 1"), []byte("of 2")
	w.start(1, 2, 3, 4)
	w.untilFetched(4)
	for _, page := range w.pages(4, 0) {
		for _, r := range page.Records {
			if strings.HasPrefix(string(r.Key), "m") {
				t.Errorf("record %q was sent", r.Key)
			}
		}
	}
	if n := size(w.pages(4, 2)); n > 0 {
		t.Errorf("%d bytes differ, though only the members' own records do", n)
	}
	w.nodes[4].disk = protocoltest.Disk{}
	w.start(4)
	m, nonce := w.nodes[4].member, w.nodes[4].config.Nonce
	m.Tick(1)
	w.nodes[4].disk.Write(m.Ready().Persist)
	page := &peerv1.Transfer{Records: []*peerv1.Record{{Key: []byte("m"), Value: []byte("foreign")}, {Key: []byte("rx"), Value: []byte("y")}}}
	m.Receive(1, &peerv1.Message{Kind: peerv1.Kind_TRANSFER_PAGE, Epoch: 2, Op: nonce, Transfer: page})
	w.nodes[4].disk.Write(m.Ready().Persist)
	if string(w.nodes[4].disk["m"]) == "foreign" || string(w.nodes[4].disk["rx"]) != "y" {
		t.Errorf("a member took another one's record for its own, or nothing: %q", w.nodes[4].disk)
	}
}

func TestPagesThatComeTwiceCountOnce(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.start(1, 2, 3, 4)
	w.lose = func(p packet) bool {
		w.nodes[p.to].member.Receive(p.from, p.message)
		return false
	}
	w.untilFetched(4)
	whole := uint64(records * (recordBytes + 6))
	if c := w.change(4); c.Bytes != whole || c.SameBytes != whole || c.Records != records {
		t.Errorf("%+v, want %d bytes once", c, whole)
	}
}

func TestPageThatLeadsNowhereIsDropped(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.start(1, 2, 3, 4)
	m, nonce := w.nodes[4].member, w.nodes[4].config.Nonce
	m.Tick(1)
	m.Ready()
	page := func(from string, keys ...string) {
		page := &peerv1.Transfer{From: []byte(from)}
		for _, key := range keys {
			page.Records = append(page.Records, &peerv1.Record{Key: []byte(key)})
		}
		m.Receive(1, &peerv1.Message{Kind: peerv1.Kind_TRANSFER_PAGE, Epoch: 2, Op: nonce, Transfer: page})
	}
	page("")
	page("", "r5")
	page("r5", "r4")
	page("r5", "r5")
	page("r7", "r8") // asked of a disk that was lost since
	if c := m.Change(); c.Records != 1 {
		t.Errorf("%+v after one page that leads on", c)
	}
}

// What is compared and not sent takes an eighth of the rate.
func TestComparingKeepsToTheRateToo(t *testing.T) {
	const rate, page = 10 << 10, 256<<10 + recordBytes + 6
	w := newWorld(t, replacing(2))
	for _, id := range []view.MemberID{1, 2, 4} {
		for i := range 4 * records {
			w.nodes[id].disk[keyOf(i)] = value(i, 1)
		}
	}
	w.nodes[4].config.TransferRate = rate
	w.start(1, 2, 3, 4)
	for !w.change(4).Fetched {
		w.step()
		if c := w.change(4); float64(c.SameBytes/8) > w.now.Sub(0).Seconds()*rate+page*10/8 || c.Bytes > 0 {
			t.Fatalf("%+v after %s", c, w.now.Sub(0))
		}
	}
}

func TestTransferKeepsToItsRate(t *testing.T) {
	const rate, page = 100 << 10, 256<<10 + recordBytes + 6
	check := func(w *world, id view.MemberID, sources uint64, over func() bool) {
		start := w.now
		for !over() {
			w.step()
			allowed := uint64(w.now.Sub(start).Seconds()*rate) + (1+sources)*page
			if came := size(w.pages(id, 0)); came > allowed {
				t.Fatalf("%d bytes came within %s, want at most %d", came, w.now.Sub(start), allowed)
			}
			if w.now.Sub(start) > time.Hour {
				t.Fatal("it never ends")
			}
		}
		came, took := float64(size(w.pages(id, 0))), w.now.Sub(start).Seconds()
		if took > came/rate*1.5+10 {
			t.Errorf("%.0f bytes took %.0f s, though %d bytes a second were allowed", came, took, rate)
		}
	}
	w := newWorld(t, replacing(2))
	w.now = 1 << 50 // clocks do not begin at 0
	w.fill(1)       // and the second source has nothing: all of it is sent
	w.nodes[4].config.TransferRate = rate
	w.start(1, 2, 3, 4)
	check(w, 4, 1, func() bool { return w.change(4).Fetched })

	w = newWorld(t, replacing(2).Before())
	w.fill(1, 2)
	w.start(1, 2, 3)
	w.step()
	w.nodes[3].disk, w.nodes[3].config.Bootstrap, w.nodes[3].config.TransferRate = protocoltest.Disk{}, false, rate
	w.start(3)
	check(w, 3, 2, func() bool { return w.nodes[3].member.Voter() })
	if !maps.EqualFunc(bare(w.nodes[3].disk), bare(w.nodes[1].disk), bytes.Equal) {
		t.Error("the member that lost its disk does not hold what the others do")
	}
}

func TestSourceThatDoesNotAnswerIsLeft(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2, 3)
	w.nodes[4].config.TransferRate = 64 << 10
	w.start(1, 2, 3, 4)
	w.until("member 1 sends", func() bool { return len(w.pages(4, 1)) > 0 })
	w.nodes[1].member = nil
	w.untilFetched(4)
	if size(w.pages(4, 2)) == 0 || len(w.pages(4, 3)) == 0 {
		t.Error("the others were not asked")
	}

	// With another one gone there's no majority without the first, which is tried again.
	w = newWorld(t, replacing(2))
	w.fill(1, 2)
	w.start(2, 4)
	for range 200 {
		w.step()
	}
	if c := w.change(4); c.Fetched || size(w.pages(4, 2)) == 0 {
		t.Fatalf("with one source %+v", c)
	}
	w.start(1)
	w.untilFetched(4)
}

// A page takes long on a slow way. It is not asked for more and more often.
func TestAskingAgainLeavesTime(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.start(1, 2, 3, 4)
	asked := map[view.MemberID]int{}
	w.lose = func(p packet) bool {
		if p.message.Kind == peerv1.Kind_TRANSFER {
			asked[p.to]++
		}
		return true
	}
	for range 100 { // 25 Retry
		w.step()
	}
	for id := view.MemberID(1); id <= 3; id++ {
		if asked[id] < 3 || asked[id] > 10 {
			t.Errorf("member %d was asked %d times", id, asked[id])
		}
	}
}

func TestDiskThatWasLostIsFetchedAnew(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	w.nodes[4].config.TransferRate = 64 << 10
	w.start(1, 2, 3, 4)
	w.until("member 1 sends", func() bool { return len(w.pages(4, 1)) > 1 })
	w.nodes[1].disk, w.nodes[1].config.Bootstrap = protocoltest.Disk{}, false
	w.start(1)
	w.until("its next disk votes", func() bool { return w.nodes[1].member.Voter() })
	w.sent = nil
	w.untilFetched(4)
	pages := w.pages(4, 1)
	if len(pages) == 0 || len(pages[0].From) != 0 {
		t.Error("what came of the lost disk counts for the next one")
	}
}

func TestOneSourceIsNotEnough(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.start(1, 4)
	for range 100 {
		w.step()
	}
	if w.change(4).Fetched {
		t.Error("one source is enough")
	}
}

// What is left out of an answer is what an earlier process had. It may be gone with its disk.
func TestAnswersToAnEarlierProcessDoNotCount(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2, 4)
	var late []packet
	w.lose = func(p packet) bool {
		if p.message.Kind == peerv1.Kind_TRANSFER_PAGE {
			late = append(late, p)
		}
		return p.message.Kind == peerv1.Kind_TRANSFER_PAGE
	}
	w.start(1, 2, 3, 4)
	w.until("an answer", func() bool { return len(late) > 0 })
	if late[0].message.Transfer.Compared == 0 {
		t.Fatal("the records differ")
	}
	// A record at the end of the same range happens to be there.
	w.nodes[4].disk = protocoltest.Disk{string(late[0].message.Transfer.Until): []byte("other")}
	w.start(4)
	w.step()
	w.nodes[4].member.Receive(late[0].from, late[0].message)
	if c := w.change(4); c.SameBytes > 0 {
		t.Errorf("%+v on another disk", c)
	}
}

// One to an earlier question of this process does: what it was told is here still, or what is newer.
func TestAnyAnswerToThisProcessIsRight(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.fill(1, 2)
	var late []packet
	w.lose = func(p packet) bool {
		if p.message.Kind == peerv1.Kind_TRANSFER_PAGE && p.from == 1 {
			late = append(late, p)
		}
		return p.message.Kind == peerv1.Kind_TRANSFER_PAGE
	}
	for i := range records / 3 {
		w.nodes[4].disk[keyOf(2*i)] = value(2*i, 1)
	}
	w.start(1, 2, 4)
	w.until("an answer", func() bool { return len(late) > 0 })
	for i := range records / 3 {
		w.nodes[4].journal.Put([]byte(keyOf(3*i)), value(3*i, 2))
	}
	w.until("it is asked again", func() bool { return len(late) > 1 })
	late[0], late[1] = late[1], late[0]
	w.lose = func(p packet) bool {
		for _, l := range late {
			w.nodes[l.to].member.Receive(l.from, l.message)
		}
		late = nil
		return false
	}
	w.untilFetched(4)
	for i := range records {
		want := value(i, 1)
		if i%3 == 0 && i/3 < records/3 {
			want = value(i, 2)
		}
		if got := w.nodes[4].disk[keyOf(i)]; !bytes.Equal(got, want) {
			t.Errorf("record %d is missing, or of another version", i)
		}
	}
}

// What a source says it has compared is no more than it was told.
func TestMoreThanWasToldIsNotCompared(t *testing.T) {
	w := newWorld(t, replacing(2))
	w.nodes[4].disk["r1"] = []byte("1")
	w.start(1, 2, 3, 4)
	m, nonce := w.nodes[4].member, w.nodes[4].config.Nonce
	m.Tick(1)
	m.Ready()
	page := &peerv1.Transfer{Until: []byte("r5"), Compared: 1 << 63}
	m.Receive(1, &peerv1.Message{Kind: peerv1.Kind_TRANSFER_PAGE, Epoch: 2, Op: nonce, Transfer: page})
	if c := m.Change(); c.SameBytes != 3 {
		t.Errorf("%+v, though one record was told of", c)
	}
}
