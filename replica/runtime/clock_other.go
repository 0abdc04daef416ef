//go:build !linux

package runtime

import "time"

// begun is when the process began.
var begun = time.Now()

// elapsed reads a clock that never goes back. Whether it counts the time for which the machine was suspended is up to
// the system.
func elapsed() time.Duration { return time.Since(begun) }
