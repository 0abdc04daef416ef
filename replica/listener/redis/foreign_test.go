package redis

import (
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/test/listenertest"
)

// What another protocol's client sends is not executed, whatever is in it: a browser sends any body to any port.
func TestOtherProtocolsAreNotExecuted(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	registry := prometheus.NewRegistry()
	metrics := operation.NewMetrics(registry)
	_, address := serveRedis(t, Options{Options: operation.Options{Metrics: metrics, Log: zap.New(core)}})
	const body = "SET stolen yes\r\n"
	requests := map[string]string{
		"POST":        "POST / HTTP/1.1\r\nHost: localhost:6379\r\nContent-Length: 16\r\n\r\n" + body,
		"GET":         "GET / HTTP/1.1\r\nHost: localhost:6379\r\n\r\n" + body,
		"PUT":         "PUT / HTTP/1.0\r\n\r\n" + body,
		"body first":  "PING\r\nHOST: localhost\r\n" + body,
		"HTTP/2":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + body,
		"ClientHello": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n" + body,
	}
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			w := dialWire(t, address)
			w.send(request)
			// The end may come as a reset, since what was sent is left unread.
			answered, _ := io.ReadAll(w.in)
			if strings.Contains(string(answered), "+OK") {
				t.Errorf("answered %q", answered)
			}
		})
	}
	w := dialWire(t, address)
	w.send("EXISTS stolen\r\n")
	w.expect(":0\r\n")
	got := listenertest.Metric(t, registry, "georegister_server_wrong_protocol_total", nil)
	if got != float64(len(requests)) {
		t.Errorf("%v connections are counted", got)
	}
	entries := logged.All()
	if len(entries) != 1 {
		t.Fatalf("logged %d lines, want one a minute: %v", len(entries), entries)
	}
	fields := entries[0].ContextMap()
	if !strings.HasPrefix(fields["client"].(string), "127.0.0.1:") ||
		strings.Contains(fields["reason"].(string), "stolen") {
		t.Errorf("logged %v", fields)
	}
}

func TestStrangersMaySendLittle(t *testing.T) {
	_, address := serveRedis(t, Options{Password: "secret"})
	long := "*2\r\n$4\r\nECHO\r\n$16385\r\n" + strings.Repeat("a", 16385) + "\r\n"
	for _, test := range [][2]string{
		{"*11\r\n", "unauthenticated multibulk length"},
		{"*2\r\n$4\r\nECHO\r\n$16385\r\n", "unauthenticated bulk length"},
		{"AUTH secret\r\nRESET\r\n*11\r\n", "unauthenticated multibulk length"},
	} {
		w := dialWire(t, address)
		w.send(test[0])
		got, err := io.ReadAll(w.in)
		if err != nil || !strings.HasSuffix(string(got), "-ERR Protocol error: "+test[1]+"\r\n") {
			t.Errorf("%q: answered %q, %v", test[0], got, err)
		}
	}
	w := dialWire(t, address)
	w.send("AUTH secret\r\n" + long)
	w.expect("+OK\r\n$16385\r\n")
}
