package bench

import (
	"context"
	"fmt"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/georegister/georegister/replica/register"
)

// etcdDialer speaks etcd's KV service. Messages are encoded by hand: this costs the client less than etcd's own
// library, which leaves more of the machine to etcd.
//
// A read is a linearizable Range, a write is a Put, and an rmw is a transaction of a comparison that holds and
// a Put: the least that a compare-and-swap costs there.
type etcdDialer struct{}

type etcdConn struct {
	conn    *grpc.ClientConn
	request []byte
	answer  []byte
}

func (etcdDialer) Dial(_ context.Context, address string) (Conn, error) {
	conn, err := dialGRPC(address, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return nil, err
	}
	return &etcdConn{conn: conn}, nil
}

func (c *etcdConn) Do(ctx context.Context, ops []register.Operation) error {
	op, err := one(ops)
	if err != nil {
		return err
	}
	method := "/etcdserverpb.KV/Range"
	c.request = c.request[:0]
	switch op.Kind {
	case register.Read:
		c.request = appendField(c.request, 1, op.Key) // RangeRequest.key
	case register.Write:
		method = "/etcdserverpb.KV/Put"
		c.request = appendPut(c.request, op.Key, op.Value)
	case register.RMW:
		method = "/etcdserverpb.KV/Txn"
		c.request = appendTxn(c.request, op.Key, op.Call.Args[0])
	}
	if err := c.conn.Invoke(ctx, method, &c.request, &c.answer); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return nil
}

func (c *etcdConn) Close() error { return c.conn.Close() }

func appendField[T string | []byte](b []byte, number protowire.Number, value T) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendString(b, string(value))
}

// appendPut appends a PutRequest.
func appendPut(b []byte, key string, value []byte) []byte {
	return appendField(appendField(b, 1, key), 2, value)
}

// appendTxn appends a TxnRequest: if the key's version is above -1, then put.
func appendTxn(b []byte, key string, value []byte) []byte {
	const greater = 1
	var compare []byte
	compare = protowire.AppendTag(compare, 1, protowire.VarintType) // Compare.result
	compare = protowire.AppendVarint(compare, greater)
	compare = appendField(compare, 3, key)
	compare = protowire.AppendTag(compare, 4, protowire.VarintType) // Compare.version
	compare = protowire.AppendVarint(compare, math.MaxUint64)       // -1
	put := appendField(nil, 2, appendPut(nil, key, value))          // RequestOp.request_put
	return appendField(appendField(b, 1, compare), 2, put)          // TxnRequest.compare, success
}

// rawCodec hands encoded messages through.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	answer := v.(*[]byte)
	if cap(*answer) < data.Len() {
		*answer = make([]byte, data.Len())
	}
	*answer = (*answer)[:data.Len()]
	data.CopyTo(*answer)
	return nil
}
