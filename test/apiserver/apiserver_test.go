package apiserver

import (
	"strings"
	"testing"
)

func TestRequestsAreThoseOfOneUserThatWereAnswered(t *testing.T) {
	const log = `{"stage":"ResponseComplete","verb":"update","user":{"username":"u"},"objectRef":{"resource":"leases"}}
{"stage":"ResponseStarted","verb":"watch","user":{"username":"u"},"objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"watch","user":{"username":"u"},"objectRef":{"resource":"pods"}}
{"stage":"ResponseStarted","verb":"get","user":{"username":"u"},"objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"get","user":{"username":"other"},"objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"get","user":{"usern`
	all, err := Requests(strings.NewReader(log), "u")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		got = append(got, r.Verb+" "+r.ObjectRef.Resource)
	}
	if want := "update leases, watch pods"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestALogThatIsNoneIsRefused(t *testing.T) {
	if _, err := Requests(strings.NewReader("this is no JSON\n"), "u"); err == nil {
		t.Error("it was read")
	}
}
