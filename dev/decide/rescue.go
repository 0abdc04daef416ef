package decide

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/membership"
)

// RecoverAll names all members that are left.
const RecoverAll = "all"

// Rescue is how the members that are left go on, after a quorum was lost for good, where shards have masters.
type Rescue struct{ membership.Rescue }

// Costs says what a recovery lost.
func (d Rescue) Costs() (text string) {
	for _, cost := range []struct {
		partitions []int
		text       string
	}{
		{d.Behind, "partitions %s go on from a copy that nobody waited for, and the latest writes that were " +
			"acknowledged may be lost"},
		{d.Emptied, "partitions %s begin again empty"},
		{d.Shortened, "of partitions %s the latest writes that only lost witnesses had saved may be lost"},
	} {
		if len(cost.partitions) > 0 {
			text += "; " + fmt.Sprintf(cost.text, numbersText(cost.partitions))
		}
	}
	return cmp.Or(text, "; no partition lost what was acknowledged")
}

// withConsent says what becomes of the partitions that are lost once they are named, to be read after "have".
func (d Rescue) withConsent() string {
	var all []string
	for _, end := range []struct {
		partitions []int
		text       string
	}{
		{d.Behind, "partitions %s go on from the copy of who followed furthest, without the latest writes that it " +
			"had not heard of"},
		{d.Emptied, "partitions %s, of which nobody who answers has a whole copy, begin again empty"},
	} {
		kept := func(i int) bool { return !slices.Contains(d.Lost, i) }
		if lost := slices.DeleteFunc(slices.Clone(end.partitions), kept); len(lost) > 0 {
			all = append(all, fmt.Sprintf(end.text, numbersText(lost)))
		}
	}
	return strings.Join(all, ", and ")
}

// Rescue decides how the members go on that answer and are on the disks that the view names.
func (s Situation) Rescue(unheld []int) (Rescue, error) {
	if s.View.Epoch == 0 {
		return Rescue{}, errors.New("the cluster is being founded: nothing is lost yet")
	}
	now := s.snapshot()
	for _, said := range now.Members {
		if i := s.View.Index(said.Member); said.Disk == s.View.Members[i].Disk && said.Digest != s.View.Digest() {
			return Rescue{}, fmt.Errorf("%s does not hold the view of epoch %d yet; try again in a moment",
				s.Label(said.Member), s.View.Epoch)
		}
	}
	d, err := membership.RecoverPartitions(now, unheld)
	if err != nil {
		return Rescue{}, err
	}
	if len(d.Lost) > 0 {
		return Rescue{}, fmt.Errorf("nobody who answers is certain to hold all of partitions %s; `restart` who "+
			"held them, or have %s: `recover %s %s`",
			numbersText(d.Lost), Rescue{d}.withConsent(), RecoverAll, strings.ReplaceAll(numbersText(d.Lost), " ", ""))
	}
	return Rescue{d}, nil
}

func numbersText(all []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}
