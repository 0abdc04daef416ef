package http

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/georegister/georegister/replica/listener/operation"
)

type condition struct{ ready, quorum error }

func (c *condition) Ready() error  { return c.ready }
func (c *condition) Quorum() error { return c.quorum }

func TestHTTP(t *testing.T) {
	registry := prometheus.NewRegistry()
	operation.NewMetrics(registry).Listener("redis").Open.Set(2)
	c := &condition{}
	handler := New(c, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	get := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	for _, test := range []struct {
		ready, quorum error
		method, path  string
		code          int
		text          string
	}{
		{nil, nil, "GET", "/healthz", http.StatusOK, "ok\n"},
		{errors.New("learning"), errors.New("alone"), "GET", "/healthz", http.StatusOK, "ok\n"},
		{nil, errors.New("alone"), "GET", "/readyz", http.StatusOK, "ok\n"},
		{errors.New("learning"), nil, "GET", "/readyz", http.StatusServiceUnavailable, "learning\n"},
		{errors.New("learning"), nil, "GET", "/quorumz", http.StatusOK, "ok\n"},
		{nil, errors.New("1 of 3 answer"), "GET", "/quorumz", http.StatusServiceUnavailable, "1 of 3 answer\n"},
		{nil, nil, "POST", "/readyz", http.StatusMethodNotAllowed, "Method Not Allowed\n"},
	} {
		c.ready, c.quorum = test.ready, test.quorum
		if code, text := get(test.method, test.path); code != test.code || text != test.text {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.path, code, text, test.code, test.text)
		}
	}
	if code, text := get("GET", "/metrics"); code != http.StatusOK ||
		!strings.Contains(text, `georegister_server_connections{listener="redis"} 2`) {
		t.Errorf("/metrics: %d %q", code, text)
	}
}
