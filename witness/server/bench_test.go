package server

import (
	"context"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
)

// BenchmarkStream records requests of one hash and 100 bytes over one stream on loopback, in frames of some records
// with a GC for every 50, up to window frames at once. The witness and its client share the process.
func BenchmarkStream(b *testing.B) {
	for _, bb := range []struct {
		durability    string
		frame, window int
	}{
		{"Memory", 1, 1}, {"Memory", 1, 64}, {"Memory", 50, 16},
		{"Sync", 1, 1}, {"Sync", 1, 64}, {"Sync", 50, 16},
	} {
		b.Run(bb.durability+"/frame="+strconv.Itoa(bb.frame)+"/window="+strconv.Itoa(bb.window), func(b *testing.B) {
			benchStream(b, bb.durability == "Sync", bb.frame, bb.window)
		})
	}
}

const gcEvery = 50

func benchStream(b *testing.B, durable bool, perFrame, window int) {
	var fs vfs.FS
	if durable {
		b.Chdir(b.TempDir())
		fs = vfs.Default
	}
	r := run(b, fs, Options{})
	defer func() {
		if err := r.end(); err != nil {
			b.Fatal(err)
		}
	}()
	r.ask(0).start(3, 5)
	c, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frameCodec{})))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := witnessv1.NewWitnessesClient(c).Stream(ctx)
	if err != nil {
		b.Fatal(err)
	}
	in := &inbound{}
	if err := stream.Send(&witnessv1.Frame{Hello: hello(client)}); err != nil {
		b.Fatal(err)
	}
	if err := stream.RecvMsg(in); err != nil {
		b.Fatal(err)
	}
	m, drop := record(0, 0), gc(0, 0)
	m.Request = make([]byte, 100)
	for len(drop.Drops) < gcEvery {
		drop.Drops = append(drop.Drops, gc(0, 0).Drops[0])
	}
	number := uint64(0)
	var frame []byte
	send := func() {
		frame = frame[:0]
		for range perFrame {
			number++
			m.Op, m.Id.Number, m.Hashes[0] = number, number, number*0x9e3779b97f4a7c15
			if frame, err = appendMessage(frame, m); err != nil {
				b.Fatal(err)
			}
			if at := number % gcEvery; at == 0 {
				for i := range drop.Drops {
					d := gc((number-uint64(i))*0x9e3779b97f4a7c15, number-uint64(i))
					drop.Drops[i] = d.Drops[0]
				}
				if frame, err = appendMessage(frame, drop); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := stream.SendMsg(outbound(frame)); err != nil {
			b.Fatal(err)
		}
	}
	frames := (b.N + perFrame - 1) / perFrame
	accepted, answered, sent := 0, 0, 0
	b.ReportAllocs()
	b.ResetTimer()
	begin := cpu(b)
	for ; sent < min(window, frames); sent++ {
		send()
	}
	for answered < frames*perFrame {
		if err := stream.RecvMsg(in); err != nil {
			b.Fatal(err)
		}
		for _, a := range in.messages {
			if a.Kind == witnessv1.Kind_RECORD_REPLY {
				answered++
				if a.Accepted {
					accepted++
				}
			}
		}
		for ; sent < frames && sent*perFrame-answered < window*perFrame; sent++ {
			send()
		}
	}
	used := cpu(b) - begin
	b.StopTimer()
	if accepted < answered*98/100 {
		b.Fatalf("%d of %d accepted", accepted, answered)
	}
	b.ReportMetric(float64(accepted)/b.Elapsed().Seconds(), "accepted/s")
	b.ReportMetric(float64(used.Nanoseconds())/float64(accepted), "cpu-ns/op")
}

// cpu is the time that this process has used: the witness's, and its client's.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
