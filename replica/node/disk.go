//go:build !lyingdisk

package node

import "github.com/cockroachdb/pebble/v2/vfs"

// lies says that this binary loses what it acknowledged when it is killed.
const lies = false

// fileSystem is where the disk is: that of the operating system.
func fileSystem() vfs.FS { return nil }
