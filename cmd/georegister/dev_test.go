package main

import (
	"io"
	"strings"
	"testing"
)

func TestDevActionsSayHowTheyAreUsed(t *testing.T) {
	for _, args := range [][]string{{"dev", "partition", "ca"}, {"dev", "kill"}, {"dev", "heal", "ca"}} {
		c := newCommand()
		c.SetArgs(args)
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		usage := map[string]string{"partition": "partition SITE SITE", "kill": "kill SITE", "heal": "heal"}[args[1]]
		err := c.ExecuteContext(t.Context())
		if err == nil || !strings.HasSuffix(err.Error(), "use: georegister dev "+usage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
