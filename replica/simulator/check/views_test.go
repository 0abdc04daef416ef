package check

import (
	"errors"
	"testing"
)

// What views and protocols say of quorums is what they are for, in changes of up to nine members.
func TestQuorumsAreWhatTheyAreFor(t *testing.T) {
	for _, shape := range []string{
		"s", "ss", "sss", "ssss", "sssss", "ssssss", "sssssss", "ssssssss", "sssssssss", "sj", "sl", "lj", "ssj",
		"ssl", "slj",
		"sslj", "ssslj", "sllljjj", "llljjj", "sslllj", "sssssjj", "ssssjjjjj", "sssssssll", "slllljjjj",
	} {
		if err := errors.Join(judgeOrdered(shape), judgeCounts(shape)); err != nil {
			t.Errorf("%s: %v", shape, err)
		}
	}
}
