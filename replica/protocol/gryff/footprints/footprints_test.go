package footprints

import (
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/test/near"
)

// seeds are programs, and ways through them of which each goes wrong without footprints, or with a mistake. Of an
// operation is told whose session it is of, what it does with which key, and its member; ! is a write under way. Steps
// are begins, is answered by a member, ends a phase; of faults see stepOf.
var seeds = []string{
	// One session reads x and asks for y beside it. The other one writes y meanwhile, or reads what another one wrote,
	// and then reads x.
	"wx0! Arx0 Ary0 Bwy2 Brx2 | b1 a13 a14 e1 b2 a21 b3 a31 a34 e3 a31 a34 e3 b4 a44 a43 e4 a23 e2",
	"wx0! Arx0 Ary0 Bmy2 Brx2 | b1 a13 a14 e1 b2 a21 b3 a31 a34 e3 a31 a34 e3 b4 a44 a43 e4 a23 e2",
	"wx0! Arx0 Ary0 Bwy2 Brx2 | b1 a13 a14 e1 b2 a21 F21 b3 a31 a34 e3 a31 a34 e3 b4 a44 a43 e4 a23 e2",
	"wx0! wy3! Arx0 Ary0 Bry2 Brx2 | b2 a23 a24 e2 b3 a31 a11 a12 b4 a41 a43 e4 b5 a53 a54 e5 a34 e3",
	"wx0! wy3! Arx0 Ary0 Bry2 Brx3 | b2 a21 a24 e2 b3 b4 a32 a14 a43 a44 e4 b5 a54 a51 e5 a31 e3",
	// Three sessions read in a ring.
	"wx0! wy1! wz2! Arx0 Ary0 Bry1 Brz1 Crz2 Crx2 | b3 a33 a34 e3 b5 a53 a54 e5 b7 a73 a74 e7 b4 b6 b8 a83 a64 a43 a42 " +
		"e4 a60 e6 a81 e8",
	// One session reads x and writes y beside it, under a lower carstamp than another one does meanwhile.
	"wx0! Arx0 Awy0 Bwy2 Brx2 Cry4 | " +
		"b1 a13 a14 e1 b2 a21 b3 a31 a34 e3 a31 a34 e3 b4 a44 a43 e4 a23 e2 a21 a23 e2 b5 a52 " +
		"a51 e5",
	// What is carried was missed by a read that carries something itself.
	"wz0! wx1! Arz0 Arx0 Brx1 Bmy1 Brz1 | b2 a23 a24 e2 b4 a43 a44 e4 b3 a32 b5 a52 a54 e5 a52 a54 e5 a52 a54 e5 b6 a63 " +
		"a64 e6 a33 e3",
	"wz0! wx1! Arz0 Arx0 Brx1 Bwy1 Cwy4 Crz4 | " +
		"b2 a23 a24 e2 b4 a43 a44 e4 b3 a32 b5 a52 a54 b6 a61 a62 e6 a61 a62 e6 a61 " +
		"a62 e6 b7 a71 a73 e7 a33 e3 e5 a52 a50 e5 a52 a50 e5",
}

// Who asks loses the answer of a disk, among five members and among seven.
var (
	lossOfFive = "wx0! Arx0 Ary0 Bwy3 Brx3 | " +
		"b1 a11 a13 e1 b2 a21 L1 K2 K3 K4 C2 C3 C4 b3 a31 a34 e3 a31 a34 e3 b4 a41 a44 " +
		"e4 a22 e2"
	lossOfSeven = "wx0! Arx0 Ary0 Bwy4 Brx4 | b1 a11 a13 a15 e1 b2 a21 a22 L2 K1 K4 K5 K6 C1 C4 C5 C6 b3 a32 a35 a36 e3 " +
		"a32 a35 a36 e3 b4 a43 a45 a46 e4 a23 e2"
)

// Members change while somebody asks.
var changesOfFive = []string{
	"wx0! Arx0 Ary0 Bwy2 Brx2 | V0 T0 T1 T2 T3 T5 b1 a13 a11 e1 b2 a21 b3 a31 a33 a35 e3 a31 a33 a35 e3 b4 a43 a45 e4 " +
		"a23 e2",
	"wx0! Arx0 Ary0 Bwy2 Brx2 | b1 a13 a11 e1 b2 a21 V0 T1 T2 T3 T4 T5 J2 J3 J4 V0 T2 T3 T5 b3 a33 a35 e3 a33 a35 e3 b4 " +
		"a43 a45 e4 a24 e2",
}

// stepOf reads a step. F: a member forgets the footprint of an operation, L: a disk is lost, K: a member learns of it,
// C: the new disk copies a member's, V: the next view is made, T: a member takes it on, J: who joins copies a member.
func stepOf(program []planned, word string) choice {
	first, last := int(word[1]-'0'), int(word[len(word)-1]-'0')
	switch word[0] {
	case 'b':
		return choice{begins, first, program[first].home}
	case 'e':
		return choice{ends, first, program[first].home}
	case 'a':
		return choice{isAnswered, first, last}
	case 'L':
		return choice{isLost, -1, first}
	case 'K':
		return choice{learnsOfLoss, -1, first}
	case 'C':
		return choice{isCopied, -1, first}
	case 'F':
		return choice{isForgotten, first, last}
	case 'J':
		return choice{isCopiedByJoiner, -1, first}
	case 'V':
		return choice{makesView, -1, -1}
	}
	return choice{takesView, -1, first}
}

func nearOf(texts ...string) (all []goesWrong) {
	for _, text := range texts {
		program, way, _ := strings.Cut(text, "|")
		var n goesWrong
		for _, word := range strings.Fields(program) {
			o := planned{session: 3, under: strings.HasSuffix(word, "!")}
			word = strings.TrimSuffix(word, "!")
			if len(word) == 4 {
				o.session = int(word[0] - 'A')
				word = word[1:]
			}
			o.kind = kind(strings.IndexByte("rwm", word[0]))
			o.key, o.home = int(word[1]-'x'), int(word[2]-'0')
			n.program = append(n.program, o)
		}
		for _, word := range strings.Fields(way) {
			n.way = append(n.way, stepOf(n.program, word))
		}
		all = append(all, n)
	}
	return all
}

// GEOREGISTER_FOOTPRINTS is how many ways are gone with each kind of faults (docs/checking.md).
func TestFootprintsAreRegularSequential(t *testing.T) {
	t.Parallel()
	ways := near.Number(t, "GEOREGISTER_FOOTPRINTS", 1000)
	for _, c := range []struct {
		name    string
		seeds   []string
		members int
		rules   rules
		faults  faults
	}{
		{"five members", seeds, 5, rules{}, faults{}},
		{"three members", seeds, 3, rules{forgotten: true}, faults{}},
		{"footprints are forgotten", seeds, 5, rules{forgotten: true}, faults{unknown: 1, unanswered: 2}},
		{"writes mend first", seeds, 5, rules{forgotten: true, writesMendFirst: true}, faults{}},
		{"older versions", seeds, 5, rules{forgotten: true, older: true}, faults{}},
		{"a disk is lost", append(slices.Clone(seeds), lossOfFive), 5, rules{forgotten: true}, faults{losses: 1, unknown: 1}},
		{"a disk of five is lost with footprints", append(slices.Clone(seeds), lossOfFive), 5, rules{notCopied: true},
			faults{losses: 1}},
		{"a disk of seven is lost", []string{lossOfSeven}, 7, rules{forgotten: true}, faults{losses: 1}},
		{"members change", append(slices.Clone(seeds), changesOfFive...), 5, rules{forgotten: true, notCopied: true},
			faults{changes: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, wrong := search(t, nearOf(c.seeds...), c.rules, c.faults, c.members, ways); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

func TestMistakesOfFootprintsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		rules   rules
		members int
		faults  faults
	}{
		{"there are none", rules{noFootprints: true}, 5, faults{}},
		{"reads leave none", rules{noneOfReads: true}, 5, faults{}},
		{"writes leave none", rules{noneOfWrites: true}, 5, faults{}},
		{"reads do not ask again", rules{readsGoOn: true}, 5, faults{}},
		{"reads inherit nothing", rules{readsInheritNone: true}, 5, faults{}},
		{"those at a read's coordinator do not count", rules{notOfOwn: true}, 5, faults{}},
		{"writes return at once", rules{writesReturn: true}, 5, faults{}},
		{"rmws return at once", rules{rmwsReturn: true}, 5, faults{}},
		{"rmws begin at once", rules{rmwsBegin: true}, 5, faults{}},
		{"what a write-back meets is left", rules{writesMendFirst: true, mendOnce: true}, 5, faults{}},
		{"they do not survive a crash", rules{lostInCrash: true}, 5, faults{}},
		{"answers of lost disks count", rules{deadDisks: true, notCopied: true}, 5, faults{losses: 1}},
		{"members of two views hear each other", rules{oldEpochs: true}, 5, faults{changes: 1}},
		{"a new disk of seven does not copy them", rules{notCopied: true}, 7, faults{losses: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from := seeds
			if c.faults.losses > 0 {
				from = []string{lossOfFive, lossOfSeven}[c.members/7:][:1]
			} else if c.faults.changes > 0 {
				from = changesOfFive
			}
			went, wrong := search(t, nearOf(from...), c.rules, c.faults, c.members, 50_000)
			if wrong == "" {
				t.Fatalf("not found on %d ways", went)
			}
			t.Logf("%d ways\n%s", went, wrong)
		})
	}
}
