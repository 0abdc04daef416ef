package curpraft_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/script"
)

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", curpraft.Factory) }
