package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/notation"
)

// after has the client of an operation be told of what the reads returned that a command names.
func (w *world) after(d *datadriven.TestData, client string) error {
	after, _ := d.Arg("after")
	for _, text := range after.Vals {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 || number > len(w.numbers) {
			return fmt.Errorf("after %q: there are %d operations until now", text, len(w.numbers))
		}
		handle := w.numbers[number-1]
		if handle == 0 || w.operations[handle-1].returned == nil {
			return fmt.Errorf("operation %d has read nothing yet", number)
		}
		from := w.operations[handle-1]
		w.sessions.told(from.client, client, *from.returned)
	}
	return nil
}

func describeAfter(after []*peerv1.Dependency) string {
	var parts []string
	for _, d := range after {
		parts = append(parts,
			fmt.Sprintf("%s = %s at %s", d.Key, notation.Value(d.Present, d.Value),
				notation.Tag(d.Timestamp, d.Writer, d.Rmws)))
	}
	return strings.Join(parts, ", ")
}
