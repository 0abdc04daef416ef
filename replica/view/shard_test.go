package view

import "testing"

// A shard that is added takes about half of the keys of its parent, and no other key moves.
func TestShardTakesFromItsParentAlone(t *testing.T) {
	for founded := 1; founded <= 5; founded++ {
		for count := founded; count < 40; count++ {
			taken, left := 0, 0
			for n := range uint64(4000) {
				hash := n * 0x9e3779b97f4a7c15
				before, after := Shard(hash, founded, count), Shard(hash, founded, count+1)
				if before < 0 || before >= count {
					t.Fatalf("founded with %d: of %d shards a key is in %d", founded, count, before)
				}
				parent := Parent(founded, count)
				switch {
				case after == count && before == parent:
					taken++
				case after != before:
					t.Fatalf("founded with %d: shard %d splits %d, and a key of %d goes to %d", founded, count,
						parent, before, after)
				case before == parent:
					left++
				}
			}
			if taken == 0 || left == 0 || taken > 2*left || left > 2*taken {
				t.Errorf("founded with %d: shard %d takes %d keys of its parent, and leaves it %d",
					founded, count, taken, left)
			}
		}
	}
}

// Until one is split, keys are where they always were.
func TestShardOfFoundedIsTheRemainder(t *testing.T) {
	for founded := 1; founded <= 16; founded++ {
		for hash := range uint64(1000) {
			if got := Shard(hash, founded, founded); got != int(hash%uint64(founded)) {
				t.Fatalf("of %d shards, hash %d is in %d", founded, hash, got)
			}
		}
	}
}

func TestDividedInOrder(t *testing.T) {
	v := View{Founded: 1, Partitions: make([]Partition, 4)}
	for i := range v.Partitions {
		v.Partitions[i].Split = uint64(10 * i)
	}
	want := []Division{{0, 1, 10}, {0, 2, 20}, {1, 3, 30}}
	got := v.Divided()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
}

func TestValidateSplits(t *testing.T) {
	split := func(change func(*View)) error {
		v := View{Cluster: "c", Epoch: 7, Founded: 1}
		for id := MemberID(1); id <= 3; id++ {
			v.Members = append(v.Members, Member{ID: id})
		}
		v.Partitions = []Partition{
			{Term: 7, Master: 1, Backups: []MemberID{2}}, {Term: 7, Master: 1, Backups: []MemberID{2}, Split: 7},
		}
		change(&v)
		return v.Validate()
	}
	if err := split(func(*View) {}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*View){
		"split off in a later term":         func(v *View) { v.Partitions[1].Split = 8 },
		"split off, and founded":            func(v *View) { v.Partitions[1].Split = 0 },
		"founded, and split off":            func(v *View) { v.Partitions[0].Split = 7 },
		"more founded than there are":       func(v *View) { v.Founded = 3 },
		"split off though all were founded": func(v *View) { v.Founded = 0 },
	} {
		if split(change) == nil {
			t.Errorf("%s: it is valid", name)
		}
	}
}
