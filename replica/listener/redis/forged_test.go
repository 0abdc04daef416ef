package redis

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/listenertest"
	"github.com/georegister/georegister/test/listenertest/loopback"
)

// forge is a past that no one has read: what a key has not.
func forge(key, value string) *register.Past {
	past := &register.Past{}
	read := register.Operation{Kind: register.Read, Key: key}
	past.Learn(&read, register.Result{Status: register.OK, Value: register.Value(value), Depends: true,
		Carstamp: register.Carstamp{Timestamp: 1 << 40, Writer: register.NewWriter(1, 1, 1)}})
	return past
}

// dialGRPC starts a gRPC listener on loopback and connects to it.
func dialGRPC(t *testing.T, options operation.Options) *grpc.ClientConn {
	t.Helper()
	address, stop, err := loopback.ServeOptions(t, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Ordinary clients can't write what no one has written, nor have members keep two values under one carstamp, which they
// would hold for ever.
func TestForgedTokensMakeNoMembersDiffer(t *testing.T) {
	var all []*speaker
	var clients []registerv1.RegisterClient
	for _, replica := range regularCluster(t) {
		store := &witnessing{replica: replica}
		_, address := regularly(t, Options{Options: operation.Options{Store: store}})
		conn := dialGRPC(t,
			operation.Options{
				Store: store, Proofs: listenertest.Keys, Identity: operation.Identity{Protocol: "GryffRSC"},
			})
		all, clients = append(all, dialWire(t, address)), append(clients, registerv1.NewRegisterClient(conn))
	}
	all[0].send("SET k honest\r\nFENCE\r\n")
	all[0].expect("+OK\r\n+OK\r\n")
	const refusal = `-ERR dependency on "k": no member of this cluster proves it: it has a proof of 0 bytes, not ` +
		"20 to 60; send what the answer had; give what FENCE EXPORT replied, at this cluster\r\n"
	for i, value := range []string{"forged", "another", "third"} {
		all[i].command("FENCE", "IMPORT", string(forge("k", value).Encode()))
		all[i].expect(refusal)
		all[i].send("GET other\r\nFENCE\r\n")
		all[i].expect("$-1\r\n+OK\r\n")
	}
	for i, value := range []string{"forged", "another", "third"} { // a read can bring them too
		for _, proof := range [][]byte{nil, make([]byte, 20), listenertest.Keys.Prove(register.Dependency{Key: "k"})} {
			r, err := clients[i].Do(t.Context(),
				&registerv1.Request{Kind: registerv1.Kind_READ, Key: []byte("other"), Regular: true,
					After: []*registerv1.Dependency{{Key: []byte("k"), Present: true,
						Value: []byte(value), Proof: proof,
						Carstamp: &registerv1.Carstamp{
							Timestamp: 1 << 40, Writer: uint64(register.NewWriter(1, 1, 1)),
						}}}})
			if err != nil || r.Status != registerv1.Status_INVALID {
				t.Errorf("a forged dependency is answered %v, %v", r, err)
			}
		}
	}
	for i, w := range all {
		w.send("GET k\r\n")
		if w.expect("$6\r\nhonest\r\n"); t.Failed() {
			t.Fatalf("member %d holds what nobody wrote", i+1)
		}
	}
}

// What one member answers another one takes, with either of the keys while they are replaced; what was changed on the
// way, or is of another cluster, it does not.
func TestDependenciesAreCarriedWithTheirProof(t *testing.T) {
	replicas := regularCluster(t)
	first, second := &witnessing{replica: replicas[0]}, &witnessing{replica: replicas[1]}
	serve := func(store operation.Store) registerv1.RegisterClient {
		conn := dialGRPC(t,
			operation.Options{
				Store: store, Proofs: listenertest.Keys, Identity: operation.Identity{Protocol: "GryffRSC"},
			})
		return registerv1.NewRegisterClient(conn)
	}
	answer := listenertest.Keys.Prove(
		register.Dependency{
			Key: "k",
			Versioned: register.Versioned{
				Value:    register.Value("v"),
				Carstamp: register.Carstamp{Timestamp: 3, Writer: register.NewWriter(1, 1, 1)},
			},
		})
	depends := func() *registerv1.Dependency {
		return &registerv1.Dependency{Key: []byte("k"), Present: true, Value: []byte("v"), Proof: answer,
			Carstamp: &registerv1.Carstamp{Timestamp: 3, Writer: uint64(register.NewWriter(1, 1, 1))}}
	}
	for _, client := range []registerv1.RegisterClient{serve(first), serve(second)} {
		for name, test := range map[string]struct {
			change func(*registerv1.Dependency)
			want   registerv1.Status
		}{
			"as it was":     {func(*registerv1.Dependency) {}, registerv1.Status_OK},
			"another key":   {func(d *registerv1.Dependency) { d.Key = []byte("l") }, registerv1.Status_INVALID},
			"another value": {func(d *registerv1.Dependency) { d.Value = []byte("w") }, registerv1.Status_INVALID},
			"absent": {func(d *registerv1.Dependency) {
				d.Present, d.Value = false, nil
			}, registerv1.Status_INVALID},
			"another time":   {func(d *registerv1.Dependency) { d.Carstamp.Timestamp++ }, registerv1.Status_INVALID},
			"another writer": {func(d *registerv1.Dependency) { d.Carstamp.Writer++ }, registerv1.Status_INVALID},
			"rmws":           {func(d *registerv1.Dependency) { d.Carstamp.Rmws++ }, registerv1.Status_INVALID},
			"beyond all": {func(d *registerv1.Dependency) {
				d.Carstamp.Timestamp = 1<<64 - 1
			}, registerv1.Status_INVALID},
			"a shorter proof": {func(d *registerv1.Dependency) { d.Proof = d.Proof[:19] }, registerv1.Status_INVALID},
		} {
			d := depends()
			test.change(d)
			r, err := client.Do(t.Context(),
				&registerv1.Request{Kind: registerv1.Kind_FENCE, After: []*registerv1.Dependency{d}})
			if err != nil || r.Status != test.want {
				t.Errorf("%s: %v, %v", name, r, err)
			}
		}
	}
}
