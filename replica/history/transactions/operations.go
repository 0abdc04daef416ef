package transactions

import (
	"fmt"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// OfOperations are operations on single keys as transactions: reads are read-only ones of one key, and writes
// read-write ones. Reads that may be stale are left out. What an rmw found does not always follow from its reply: an
// error names the first one, which is to be recorded as a read-write transaction instead.
func OfOperations(operations []history.Operation) ([]history.Transaction, error) {
	var all []history.Transaction
	for _, o := range operations {
		t := history.Transaction{Client: o.Client, Site: o.Site, Invoked: o.Invoked, Returned: o.Returned}
		switch o.Result.Status {
		case register.OK:
			t.Outcome = history.Committed
		case register.Unknown, 0:
		default:
			t.Outcome = history.Aborted
		}
		switch o.Request.Kind {
		case register.Read:
			if o.Request.Stale {
				continue
			}
			t.ReadOnly = true
			t.Reads = []history.Access{{Key: o.Request.Key, Value: o.Result.Value}}
		case register.Write:
			t.Writes = []history.Access{{Key: o.Request.Key, Value: o.Request.Value}}
		default:
			return nil, fmt.Errorf("client %s, key %s, invoked_ns %d: an rmw among transactions; record it as a "+
				"read-write transaction, with what it found as reads and what it left as writes", o.Client,
				name(o.Request.Key), o.Invoked.Nanoseconds())
		}
		all = append(all, t)
	}
	return all, nil
}
