package simulator

import (
	"fmt"
	"strconv"

	"github.com/georegister/georegister/replica/register"
)

// Prefixes of keys of schedules whose updates may be applied more than once.
const (
	newestPrefix  = "newest-"  // set-newest and read
	membersPrefix = "members-" // add-member and read
)

// repeatable is a read, or an update that may be applied more than once: with versions that grow, but for some, or of
// members most of which are new. On mixed keys one function refuses what the other has made.
func (s *script) repeatable() register.Operation {
	prefix := []string{newestPrefix, newestPrefix, membersPrefix, membersPrefix, mixedPrefix}[s.draw.Below(5)]
	key := prefix + strconv.Itoa(s.draw.Below(s.keys))
	if s.draw.Chance(s.reads) {
		return register.Operation{Kind: register.Read, Key: key}
	}
	if prefix == newestPrefix || prefix == mixedPrefix && s.draw.Chance(500) {
		version := max(1, s.count-s.draw.Below(8)*s.draw.Below(8))
		return call(key, register.SetNewest, strconv.Itoa(version), fmt.Sprintf("<%d>", s.count))
	}
	member := s.count
	if s.draw.Chance(300) {
		member = s.draw.Below(s.count)
	}
	return call(key, register.AddMember, strconv.Itoa(member))
}
