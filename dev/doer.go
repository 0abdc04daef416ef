package dev

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// pauseUnavailable is how long a client waits after a member said that it can't serve.
const pauseUnavailable = 100 * time.Millisecond

// clientSites lists where a workload's clients connect: each to the first member of its own site and to no
// other, and without retries. What a check sees is what that member answered.
func (c *Cluster) clientSites() []workload.Site {
	var sites []workload.Site
	for _, m := range c.members {
		if len(sites) > 0 && sites[len(sites)-1].Name == m.record.Site {
			continue
		}
		address := loopback(m.record.Ports.GRPC)
		sites = append(sites, workload.Site{Name: m.record.Site, Connect: func(context.Context, int) (workload.Doer, error) {
			return newDoer(address)
		}})
	}
	return sites
}

// doer does operations through one member's gRPC door.
type doer struct {
	connection *grpc.ClientConn
	client     registerv1.RegisterClient
	session    uint64
	number     uint64 // of the latest rmw
}

func newDoer(address string) (*doer, error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), reconnectSoon())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &doer{connection: connection, client: registerv1.NewRegisterClient(connection), session: rand.Uint64() | 1}, nil
}

// Do implements workload.Doer. While the member is down it waits for it, up to the operation's bound.
func (d *doer) Do(ctx context.Context, op register.Operation) register.Result {
	ctx, cancel := context.WithTimeout(ctx, operationWithin+time.Second)
	defer cancel()
	request := &registerv1.Request{
		Kind: kinds[op.Kind], Key: []byte(op.Key), Present: op.Value.Present(), Value: op.Value,
		Function: op.Call.Function, Arguments: op.Call.Args,
		TimeoutMs: uint32(operationWithin / time.Millisecond),
	}
	if op.Kind == register.RMW {
		d.number++ // one at a time: all earlier ones are over
		request.Id = &registerv1.RmwID{
			Session: d.session, Number: d.number, FirstIncomplete: d.number, IssuedAt: time.Now().UnixMilli(),
		}
	}
	response, err := d.client.Do(ctx, request, grpc.WaitForReady(true))
	if err != nil {
		return register.Result{Status: register.Unknown, Message: err.Error()}
	}
	result := register.Result{
		Status: statuses[response.Status], Message: response.Message,
		RoundTrips: int(response.RoundTrips), Fast: response.Fast,
	}
	if response.Present {
		result.Value = append(register.Value{}, response.Value...)
	}
	if c := response.Carstamp; c != nil {
		result.Carstamp = register.Carstamp{Timestamp: c.Timestamp, Writer: register.Writer(c.Writer), RMWs: c.Rmws}
	}
	switch result.Status {
	case 0:
		result.Status = register.Unknown // from a replica that knows more than this code
	case register.Unavailable: // such as a newcomer's answer, at once: asking again at once would not help
		select {
		case <-time.After(pauseUnavailable):
		case <-ctx.Done():
		}
	}
	return result
}

// Close implements io.Closer.
func (d *doer) Close() error { return d.connection.Close() }

var kinds = map[register.Kind]registerv1.Kind{
	register.Read: registerv1.Kind_READ, register.Write: registerv1.Kind_WRITE, register.RMW: registerv1.Kind_RMW,
}

var statuses = map[registerv1.Status]register.Status{
	registerv1.Status_OK: register.OK, registerv1.Status_FAILED: register.Failed,
	registerv1.Status_INVALID: register.Invalid, registerv1.Status_UNSUPPORTED: register.Unsupported,
	registerv1.Status_UNAVAILABLE: register.Unavailable, registerv1.Status_UNKNOWN: register.Unknown,
}

func closeDoer(d workload.Doer) {
	if closer, ok := d.(io.Closer); ok {
		_ = closer.Close() // its operations are over
	}
}
