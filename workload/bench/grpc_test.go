package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/client/regulartest"
	"github.com/georegister/georegister/replica/register"
)

// A connection is a session: what its reads depend on goes along with what it sends next, and is fenced where it is too
// much.
func TestConnectionsAreSessions(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, test := range map[string]struct {
		dialer       Dialer
		together     int
		fences, last int // how many fences, and what the last write carried
	}{
		"grpc":   {unaryDialer{}, 1, 0, 1},
		"stream": {streamDialer{}, register.MaxDependencies + 3, 1, 3},
	} {
		cluster := &regulartest.Cluster{}
		address, _, stop, err := cluster.Serve()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := test.dialer.Dial(ctx, address)
		if err != nil {
			t.Fatal(err)
		}
		var reads []register.Operation
		for i := range test.together {
			key := fmt.Sprint("k", i)
			defer cluster.Begin(key, register.Value("x"))()
			reads = append(reads, register.Operation{Kind: register.Read, Key: key})
		}
		write := []register.Operation{{Kind: register.Write, Key: "else", Value: register.Value("x")}}
		for _, ops := range [][]register.Operation{reads, write, write} {
			if err := conn.Do(ctx, ops); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		writes := cluster.Requests(registerv1.Kind_WRITE)
		n := len(cluster.Requests(registerv1.Kind_FENCE))
		if n != test.fences || len(writes) != 2 || len(writes[0].GetAfter()) != test.last ||
			len(writes[1].GetAfter()) != 0 {
			t.Errorf("%s: %d fences, and the writes were %v", name, n, writes)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stop()
	}
}
