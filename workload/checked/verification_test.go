package checked

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
	"github.com/georegister/georegister/test/listenertest/loopback"
	"github.com/georegister/georegister/workload"
)

// verification is a short one of a store with a listener at each of three sites.
func verification(t *testing.T, store *listenertest.Memory) Verification {
	t.Helper()
	v := Verification{Protocol: "Gryff", Duration: 300 * time.Millisecond, Clients: 2, Every: 5 * time.Millisecond,
		Progress: 50 * time.Millisecond}
	for _, site := range []string{"ca", "va", "ir"} {
		address, stop, err := loopback.Serve(t, store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		v.Sites = append(v.Sites, client.Endpoint{Site: site, Address: address})
	}
	return v
}

func TestVerification(t *testing.T) {
	store := &listenertest.Memory{Delay: time.Millisecond}
	v := verification(t, store)
	v.History = filepath.Join(t.TempDir(), "history.jsonl")
	var out bytes.Buffer
	if err := v.Run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"2 clients at each of 3 sites", " operations\n", "verdict: linearizable",
		"longest time without a success at site ca: ", "longest time without a success at site va: ", "at site ir: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	for _, op := range store.Submitted() {
		if !strings.HasPrefix(op.Key, "verify/") {
			t.Fatalf("key %q is not its own", op.Key)
		}
	}
	file, err := os.Open(v.History)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	record, err := history.ReadRecord(t.Context(), file, false)
	operations := record.Operations
	if err != nil || len(operations) != len(store.Submitted()) {
		t.Errorf("the history has %d of %d operations: %v", len(operations), len(store.Submitted()), err)
	}
	// Every key is read back at every site, or a loss that no client met would stay hidden.
	back := 0
	for _, o := range operations {
		if strings.HasPrefix(o.Client, "read-back-") {
			back++
		}
	}
	recorded := history.NewRecorder(nil)
	for _, o := range operations {
		recorded.Invoke(o.Client, o.Site, o.Request).Return(o.Result)
	}
	if keys := Keys(recorded); back != 3*len(keys) || !slices.IsSorted(keys) {
		t.Errorf("%d keys were read back %d times, want 3 times each", len(keys), back)
	}
}

func TestVerificationFindsLostWrites(t *testing.T) {
	v := verification(t, &listenertest.Memory{Delay: time.Millisecond, Intercept: listenertest.LoseWrites})
	var out bytes.Buffer
	err := v.Run(t.Context(), &out)
	if err == nil || !strings.Contains(err.Error(), "verdict violation") ||
		!strings.Contains(out.String(), "verdict: violation") {
		t.Errorf("a store that loses writes: %v\n%s", err, out.String())
	}
}

// What could not be read back may be lost: the history is linearizable, and the verification fails.
func TestVerificationNeedsEveryKeyReadBack(t *testing.T) {
	refuse := func(op register.Operation) (register.Result, bool, bool) {
		return register.Result{Status: register.Invalid, Message: "no reads"}, false, op.Kind == register.Read
	}
	store := &listenertest.Memory{Delay: time.Millisecond, Intercept: refuse}
	err := verification(t, store).Run(t.Context(), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "read back key ") || !strings.Contains(err.Error(), "no reads") {
		t.Errorf("a store that can't be read: %v", err)
	}
}

func TestVerificationThatCanNotBegin(t *testing.T) {
	v := verification(t, &listenertest.Memory{})
	v.Protocol = "Paxos"
	if err := v.Run(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "Paxos") {
		t.Errorf("a protocol that is not known: %v", err)
	}
}

func TestPrefixed(t *testing.T) {
	var got string
	d := Prefixed(doing(func(op register.Operation) register.Result {
		got = op.Key
		return register.Result{Status: register.OK}
	}), "mine/")
	op := register.Operation{Kind: register.Read, Key: "k"}
	if r := d.Do(t.Context(), op); r.Status != register.OK || got != "mine/k" || op.Key != "k" {
		t.Errorf("asked for %q: %v", got, r)
	}
}

// doing is a doer that is a function.
type doing func(register.Operation) register.Result

func (d doing) Do(_ context.Context, op register.Operation) register.Result { return d(op) }

var _ workload.Doer = doing(nil)
