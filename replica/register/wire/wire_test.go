package wire

import (
	"testing"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	stamp := register.Carstamp{Timestamp: 1 << 40, Writer: 1<<50 | 7, RMWs: 3}
	for _, value := range []register.Value{nil, {}, register.Value("v")} {
		m := Dependencies(
			[]register.Dependency{{Key: "a"},
				{Key: "k", Versioned: register.Versioned{Carstamp: stamp, Value: value}}})[1]
		if string(m.Key) != "k" || m.Present != value.Present() || string(m.Value) != string(value) ||
			Carstamp(m.Carstamp) != stamp {
			t.Errorf("%q is written as %v", value, m)
		}
	}
	if Dependencies(nil) != nil || !Carstamp(nil).IsZero() || !Carstamp(&registerv1.Carstamp{}).IsZero() {
		t.Error("nothing is something")
	}
}
