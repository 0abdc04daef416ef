package gryff_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/script"
)

func TestScripts(t *testing.T) { script.Run(t, "testdata", gryff.Factory) }
