package grpc

import (
	"reflect"
	"strings"
	"testing"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
)

// Only a read may be stale, and only one that says so.
func TestReadsMayBeStale(t *testing.T) {
	o := operation.Options{Limits: register.DefaultLimits()}
	for _, stale := range []bool{false, true} {
		r := &registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"), Stale: stale}
		want := register.Operation{Kind: register.Read, Key: "k", Stale: stale}
		if op, err := operationOf(&o, r); err != nil || !reflect.DeepEqual(op, want) {
			t.Errorf("%v is %+v, %v, want %+v", r, op, err, want)
		}
	}
}

// What a key remembers of sessions is bounded by their issue times, so none may come from the far future.
func TestClocksAheadAreRefused(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		want  string
	}{
		{-time.Hour, ""}, {0, ""}, {maxAhead / 2, ""}, {2 * maxAhead, "ahead of this replica's clock"},
	} {
		id := &registerv1.RmwID{Session: 1, Number: 1, IssuedAt: time.Now().Add(c.ahead).UnixMilli()}
		_, err := withID(register.Operation{}, id)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v ahead: %v, want %q", c.ahead, err, c.want)
		}
	}
}

// What a session depends on comes as the answer had it, also a value that is empty, or deleted.
func TestDependenciesAreMapped(t *testing.T) {
	o := operation.Options{Limits: register.DefaultLimits(), Proofs: listenertest.Keys}
	stamp := &registerv1.Carstamp{Timestamp: 3, Writer: 7, Rmws: 2}
	after := []*registerv1.Dependency{
		{Key: []byte("a"), Present: true, Value: []byte("v"), Carstamp: stamp},
		{Key: []byte("b"), Present: true, Carstamp: stamp},
		{Key: []byte("c"), Carstamp: stamp},
	}
	held := register.Carstamp{Timestamp: 3, Writer: 7, RMWs: 2}
	want := []register.Dependency{
		{Key: "a", Versioned: register.Versioned{Carstamp: held, Value: register.Value("v")}},
		{Key: "b", Versioned: register.Versioned{Carstamp: held, Value: register.Value{}}},
		{Key: "c", Versioned: register.Versioned{Carstamp: held}},
	}
	for i := range want {
		want[i].Proof = listenertest.Keys.Prove(want[i])
		after[i].Proof = want[i].Proof
	}
	for _, c := range []struct {
		request *registerv1.Request
		want    register.Operation
	}{
		{&registerv1.Request{Kind: registerv1.Kind_FENCE, After: after},
			register.Operation{Kind: register.Fence, After: want}},
		{&registerv1.Request{Kind: registerv1.Kind_FENCE}, register.Operation{Kind: register.Fence}},
		{&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("k"), Regular: true, After: after},
			register.Operation{Kind: register.Read, Key: "k", Regular: true, After: want}},
		{&registerv1.Request{
			Kind: registerv1.Kind_WRITE, Key: []byte("k"), Present: true, Value: []byte("v"), After: after,
		},
			register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v"), After: want}},
	} {
		if op, err := operationOf(&o, c.request); err != nil || !reflect.DeepEqual(op, c.want) {
			t.Errorf("%v is %+v, %v, want %+v", c.request, op, err, c.want)
		}
	}
	a := &answer{}
	a.fill(1, register.Result{Status: register.OK, Depends: true})
	if depended := a.Depends; !depended {
		t.Error("the answer does not say that it is depended on")
	}
	if a.fill(2, register.Result{Status: register.OK}); a.Depends { // answers are used again
		t.Error("an answer says that it is depended on as the one before it did")
	}
}
