// Package message has the forms in which decisions are told to people: events, causes, conditions, names and lists.
package message

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Event is told to the people who watch the resource.
type Event struct {
	Type    string // corev1.EventTypeNormal or EventTypeWarning
	Reason  string // a word in CamelCase
	Action  string // what the operator did, as a verb
	Message string
}

// Normal is an event of ordinary business.
func Normal(reason, action, message string) Event {
	return Event{corev1.EventTypeNormal, reason, action, message}
}

// Warning is an event that somebody should look at.
func Warning(reason, action, message string) Event {
	return Event{corev1.EventTypeWarning, reason, action, message}
}

// Cause is why something is as it is, for a condition: a word for machines and a sentence for people.
type Cause struct{ Reason, Message string }

// Say is a cause with a message by a format.
func Say(reason, format string, args ...any) Cause {
	return Cause{reason, fmt.Sprintf(format, args...)}
}

// Because is a pointer to such a cause.
func Because(reason, format string, args ...any) *Cause {
	return &Cause{reason, fmt.Sprintf(format, args...)}
}

// Of are the causes' messages.
func Of(causes []Cause) (all []string) {
	for _, c := range causes {
		all = append(all, c.Message)
	}
	return all
}

// Condition is a condition of a status, without a generation and a time.
func Condition(kind string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Bounded is a message of which the end is left out if it is long: the apiserver takes no more than 1024 bytes of an
// event.
func Bounded(message string) string {
	const most = 1000
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + "..."
}

// List joins parts of a sentence, at most five of them.
func List(parts []string) string {
	const most = 5
	if more := len(parts) - most; more > 0 {
		parts = append(slices.Clone(parts[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// Sentence makes a sentence of a message that may begin with a member's name.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// Member names a member for people.
func Member(m view.Member) string { return fmt.Sprintf("member %d (site %s)", m.ID, m.Site) }

// Members names members for people.
func Members(all []view.Member) string { return join(all, Member) }

// Witness names a witness for people.
func Witness(w view.Witness) string { return fmt.Sprintf("witness %d (site %s)", w.ID, w.Site) }

// SeenWitness names a dedicated witness for people, by what was seen of it.
func SeenWitness(m *world.Member) string { return Witness(view.Witness{ID: m.ID, Site: m.Site}) }

// Numbers lists members, witnesses or shards by their numbers.
func Numbers[T int | view.MemberID](all []T) string {
	return join(all, func(n T) string { return fmt.Sprint(n) })
}

func join[T any](all []T, name func(T) string) string {
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	return strings.Join(names, ", ")
}
