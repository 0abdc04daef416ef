package history

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/register"
)

const (
	goodReadWrite = `{"client":"a","site":"ca","kind":"read-write","reads":[{"key":"x","value":"1","version":"7"}],` +
		`"writes":[{"key":"x","value":"2"},{"key":"y","value":null}],"invoked_ns":1,"returned_ns":2,` +
		`"status":"committed","timestamp":"9"}`
	goodReadOnly = `{"client":8,"kind":"read-only","reads":[{"key":"x"}],"invoked_ns":3,"status":"unknown"}`
)

func TestTransactionsAreRead(t *testing.T) {
	want := Record{Transactions: []Transaction{
		{
			Client: "a", Site: "ca", Reads: []Access{{Key: "x", Value: register.Value("1"), Version: 7}},
			Writes:  []Access{{Key: "x", Value: register.Value("2")}, {Key: "y"}},
			Invoked: 1, Returned: 2, Outcome: Committed, Timestamp: 9,
		},
		{Client: "8", ReadOnly: true, Reads: []Access{{Key: "x"}}, Invoked: 3},
	}}
	readAndWrite(t, goodReadWrite+"\n"+goodReadOnly+"\n", want)
}

func TestReadNamesTheFieldOfATransaction(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"read-write", "read-only", `line 1: field "writes": a read-only transaction has none`},
		{`,"returned_ns":2`, ``, `line 1: field "returned_ns" is missing; only an unknown outcome has none`},
		{`_ns":2`, `_ns":0`, `line 1: field "returned_ns" is before "invoked_ns"`},
		{"committed", "ok", `line 1: field "status": "ok" is not one of [committed aborted unknown]`},
		{`"y"`, `"x"`, `line 1: field "writes": item 1: field "key": "x" is there twice`},
		{`"key":"y"`, `"kye":"y"`, `line 1: field "writes": item 1: field "key" is missing`},
		{`"version":"7"`, `"version":"-7"`, `line 1: field "reads": item 0: field "version": strconv.ParseUint`},
		{`[{"key":"x","value":"1","version":"7"}]`, `{}`, `line 1: field "reads": {} is not an array of objects`},
		{`"client":"a"`, `"client":"a","key":"x"`, `line 1: field "key" is unknown`},
	} {
		text := strings.Replace(goodReadWrite, test.from, test.to, 1)
		if _, err := ReadRecord(t.Context(), strings.NewReader(text), false); err == nil ||
			!strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", text, err, test.want)
		}
	}
}
