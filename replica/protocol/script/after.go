package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
)

// remember keeps what a read returned, for those that come after it.
func (w *world) remember(c protocol.Completion) {
	if c.Result.Status != register.OK || c.Result.Carstamp.IsZero() || w.operations[c.Handle-1].operation.Kind != register.Read {
		return
	}
	w.returned[c.Handle] = register.Dependency{
		Key:       w.operations[c.Handle-1].operation.Key,
		Versioned: register.Versioned{Carstamp: c.Result.Carstamp, Value: c.Result.Value},
	}
}

// after has the client of an operation be told of what the reads returned that a command names.
func (w *world) after(d *datadriven.TestData, client string) error {
	after, _ := d.Arg("after")
	for _, text := range after.Vals {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 || number > len(w.numbers) {
			return fmt.Errorf("after %q: there are %d operations until now", text, len(w.numbers))
		}
		handle := w.numbers[number-1]
		dependency, ok := w.returned[handle]
		if !ok {
			return fmt.Errorf("operation %d has read nothing yet", number)
		}
		w.sessions.told(w.operations[handle-1].client, client, dependency)
	}
	return nil
}

func describeAfter(after []*peerv1.Dependency) string {
	var parts []string
	for _, d := range after {
		parts = append(parts, fmt.Sprintf("%s = %s at %s", d.Key, notation.Value(d.Present, d.Value), notation.Tag(d.Timestamp, d.Writer, d.Rmws)))
	}
	return strings.Join(parts, ", ")
}
