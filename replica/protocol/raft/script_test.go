package raft_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/script"
)

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", raft.Factory) }
