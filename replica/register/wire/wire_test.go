package wire

import (
	"reflect"
	"strings"
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

// A kind or a status is sent as its number.
func TestNumbersAreTheSame(t *testing.T) {
	for n, name := range registerv1.Kind_name {
		if kind := register.Kind(n).String(); n > 0 && !strings.EqualFold(kind, name) {
			t.Errorf("kind %d is %s, and %s as a message has it", n, kind, name)
		}
	}
	for n, name := range registerv1.Status_name {
		if status := register.Status(n).String(); n > 0 && !strings.EqualFold(status, name) {
			t.Errorf("status %d is %s, and %s as a message has it", n, status, name)
		}
	}
}

func TestResultsAreRead(t *testing.T) {
	for _, r := range []register.Result{
		{Status: register.OK, Value: register.Value{}, RoundTrips: 2, Fast: true, Depends: true, Proof: []byte("p"),
			Carstamp: register.Carstamp{Timestamp: 3, Writer: 7, RMWs: 2}},
		{Status: register.Failed, Message: "refused"},
	} {
		m := &registerv1.Response{TooLarge: true, Carstamp: &registerv1.Carstamp{Timestamp: 9}} // of the result before
		SetResponse(m, &registerv1.Carstamp{}, r)
		if got := Result(m); !reflect.DeepEqual(got, r) || m.TooLarge {
			t.Errorf("%+v is read as %+v", r, got)
		}
	}
}
