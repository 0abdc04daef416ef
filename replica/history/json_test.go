package history

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	history := atomic(rand.New(rand.NewPCG(1, 1)),
		shape{operations: 60, clients: 3, keys: 2, unknown: 0.2, hints: true})
	odd := write("a", -5, 2, "")
	odd.Site, odd.Request.Key, odd.Request.Value = "ca", "\xff<k>", register.Value{0xfe, 0}
	swap := withID(1<<63+1, 9, rmw("a", 1, 2, "", register.CompareAndSwap, "", "\xff"))
	swap.Result = register.Result{
		Status: register.Failed, Message: "no", RoundTrips: 2, Fast: true,
		Carstamp: register.Carstamp{Timestamp: 1, Writer: register.NewWriter(2, 3, 4), RMWs: 5},
	}
	history = append(history, odd, swap, write("a", 3, 4, ""), remove("a", 5, 6), absent("a", 7, 8),
		readOf("a", 9, 10, ""))
	var file bytes.Buffer
	if err := WriteRecord(&file, Record{Operations: history}); err != nil {
		t.Fatal(err)
	}
	record, err := ReadRecord(t.Context(), &file, false)
	if err != nil {
		t.Fatal(err)
	}
	got := record.Operations
	for i := range history {
		if !history[i].Known() {
			history[i].Returned = 0 // it has no meaning, so it is not written
		}
		if !reflect.DeepEqual(got[i], history[i]) {
			t.Errorf("operation %d\n got %+v\nwant %+v", i, got[i], history[i])
		}
	}
}

const good = `{"client":7,"kind":"write","key":"k","value":"v","invoked_ns":1,"returned_ns":2,"status":"ok"}`

func TestReadNamesLineAndField(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"torn", good + "\n" + good[:40], "line 2: not a JSON object"},
		{"not an object", "\n\n[1]\n", "line 3: not a JSON object"},
		{"unknown field", strings.Replace(good, "client", "cleint", 1), `line 1: field "client" is missing`},
		{"another unknown field", strings.Replace(good, "{", `{"extra":1,`, 1), `line 1: field "extra" is unknown`},
		{"kind", strings.Replace(good, "write", "wrote", 1),
			`line 1: field "kind": "wrote" is not one of [read write rmw], nor message, fence, read-only or read-write`},
		{"status", strings.Replace(good, `"ok"`, "1", 1), `line 1: field "status": 1 is not one of [ok `},
		{"time", strings.Replace(good, `:1,`, `:"x",`, 1), `line 1: field "invoked_ns": "x" is not an integer`},
		{"no return", strings.Replace(good, `"returned_ns":2,`, ``, 1), `line 1: field "returned_ns" is missing`},
		{"early return", strings.Replace(good, `_ns":2,`, `_ns":0,`, 1),
			`line 1: field "returned_ns" is before "invoked_ns"`},
		{"value", strings.Replace(good, `"v"`, `{"base64":"!"}`, 1),
			`line 1: field "value": {"base64":"!"} is neither`},
		{"carstamp", strings.Replace(good, "{", `{"carstamp":"1/2/3",`, 1),
			`line 1: field "carstamp": "1/2/3" is not timestamp/member`},
		{"function", strings.Replace(good, `"write"`, `"rmw"`, 1), `line 1: field "function" is missing`},
		{"argument", strings.Replace(good, "{", `{"args":["a",1],`, 1), `line 1: field "args": item 1: 1 is neither`},
		{"bytes", strings.Replace(good, `"v"`, "\"\xff\"", 1), `line 1: not UTF-8`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ReadRecord(t.Context(), strings.NewReader(test.text), false)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s...", err, test.want)
			}
		})
	}
}

func TestATornReadLeavesOutTheTornLineOnly(t *testing.T) {
	got, err := ReadRecord(t.Context(), strings.NewReader(good+"\n"+good[:40]), true)
	if err != nil || len(got.Operations) != 1 || got.Operations[0].Client != "7" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ReadRecord(t.Context(), strings.NewReader(good[:40]+"\n"+good+"\n"), true); err == nil {
		t.Error("a torn line in the middle is read")
	}
}

// broken fails every write.
type broken struct{}

var errBroken = errors.New("broken")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestWriterReportsAnError(t *testing.T) {
	err := WriteRecord(broken{}, Record{Operations: []Operation{write("a", 1, 2, "x")}})
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestRecorderIsForManyGoroutines(t *testing.T) {
	r := NewRecorder(nil)
	var clients sync.WaitGroup
	for _, client := range []string{"a", "b", "c", "d"} {
		clients.Go(func() {
			for range 100 {
				r.Invoke(client, "site",
					register.Operation{Kind: register.Read, Key: "k"}).Return(register.Result{Status: register.OK})
			}
		})
	}
	clients.Wait()
	if got := len(r.Operations()); got != 400 {
		t.Errorf("kept %d operations, want 400", got)
	}
}

func TestRecorderOrdersWhatTheClockDoesNot(t *testing.T) {
	r := NewRecorder(func() time.Duration { return 5 })
	first := r.Invoke("a", "", register.Operation{Kind: register.Write, Key: "k", Value: register.Value("x")})
	done := first.Return(register.Result{Status: register.OK})
	open := r.Invoke("b", "", register.Operation{Kind: register.Read, Key: "k"})
	history := r.Operations()
	if done.Invoked != 5 || done.Returned <= done.Invoked || history[1].Invoked <= done.Returned {
		t.Errorf("stamps do not increase: %+v", history)
	}
	if history[1].Known() {
		t.Error("an operation that has not returned has a known outcome")
	}
	open.Return(register.Result{Status: register.OK})
	if v := Check(t.Context(), r.Operations(), Options{}); v.Outcome != Violation {
		t.Errorf("an absent value after a write, at one reading of the clock, is %s", v.Outcome)
	}
}

const (
	goodMessage = `{"kind":"message","from":"a","sent_ns":3,"to":7,"received_ns":4}`
	goodFence   = `{"kind":"fence","client":"a","invoked_ns":5,"returned_ns":5}`
)

// Messages and fences stand between operations.
// readAndWrite checks that a history is read as a record, also from what is written of it, which it returns.
func readAndWrite(t *testing.T, text string, want Record) string {
	t.Helper()
	for range 2 {
		got, err := ReadRecord(t.Context(), strings.NewReader(text), false)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		var file bytes.Buffer
		if err := WriteRecord(&file, got); err != nil {
			t.Fatal(err)
		}
		text = file.String()
	}
	return text
}

func TestMessagesAndFencesAreRead(t *testing.T) {
	operations, err := ReadRecord(t.Context(), strings.NewReader(good), false)
	if err != nil || len(operations.Operations) != 1 {
		t.Fatal(operations, err)
	}
	want := Record{
		Operations: operations.Operations,
		Messages:   []Message{{From: "a", Sent: 3, To: "7", Received: 4}},
		Fences:     []Fence{{Client: "a", Invoked: 5, Returned: 5}},
	}
	text := goodFence + "\n" + good + "\n" + goodMessage + "\n"
	text = readAndWrite(t, text, want)
	if got, err := ReadRecord(t.Context(), strings.NewReader(text+goodFence[:20]), true); err != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("with a torn line: %+v, %v", got, err)
	}
	for _, test := range []struct{ text, want string }{
		{strings.Replace(goodMessage, "from", "form", 1), `line 1: field "from" is missing`},
		{strings.Replace(goodMessage, `:4`, `:3`, 1), `line 1: field "received_ns" is not after "sent_ns"`},
		{strings.Replace(goodMessage, `{`, `{"key":"k",`, 1), `line 1: field "key" is unknown`},
		{strings.Replace(goodFence, `:5}`, `:4}`, 1), `line 1: field "returned_ns" is before "invoked_ns"`},
		{strings.Replace(goodFence, `"a"`, `[]`, 1), `line 1: field "client": [] is not a string or a number`},
	} {
		if _, err := ReadRecord(t.Context(), strings.NewReader(test.text), false); err == nil ||
			!strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
}

// A recorded fence is what makes a later read that misses what was fenced wrong.
func TestRecordedFencesCount(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		r := NewRecorder(nil)
		r.Invoke("writer", "", register.Operation{Kind: register.Write, Key: "k", Value: register.Value("x")})
		read := func(client string, value register.Value) {
			r.Invoke(client, "",
				register.Operation{Kind: register.Read, Key: "k"}).Return(
				register.Result{Status: register.OK, Value: value})
		}
		read("a", register.Value("x"))
		end := r.Fence("a")
		if fenced {
			end()
		}
		read("b", nil)
		v, err := r.Record().CheckRSC(t.Context(), RSCOptions{})
		if err != nil || v.OK() == fenced {
			t.Errorf("fenced is %t: %s, %v", fenced, v.Outcome, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, `"k"`, `""`, 1)))
	f.Add(
		[]byte(
			`{"client":"a","kind":"rmw","key":{"base64":"/w=="},"function":"add.v1","args":["1"],"session":"12","number":1,"invoked_ns":1,"status":"unknown"}`))
	f.Add(
		[]byte(
			`{"client":"a","kind":"read","key":"k","invoked_ns":1,"returned_ns":3,"status":"ok","reply":"","carstamp":"1/2.3.4/5","round_trips":1,"fast":true}`))
	f.Add([]byte(goodReadWrite + "\n" + goodReadOnly))
	f.Add([]byte(goodMessage + "\n" + good + "\n" + goodFence))
	f.Fuzz(func(t *testing.T, text []byte) {
		record, err := ReadRecord(t.Context(), bytes.NewReader(text), false)
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := WriteRecord(&file, record); err != nil {
			t.Fatal(err)
		}
		again, err := ReadRecord(t.Context(), &file, false)
		if err != nil {
			t.Fatalf("what was read can't be read again: %v", err)
		}
		for i := range record.Operations {
			if o := &record.Operations[i]; !o.Known() {
				o.Result = register.Result{Status: register.Unknown, Message: o.Result.Message}
			}
		}
		if !reflect.DeepEqual(record, again) {
			t.Fatalf("read %+v, then %+v", record, again)
		}
	})
}
