// Package http is the HTTP listener of a replica: probes of its health, and its metrics.
package http

import "net/http"

// Health is what a replica knows of its own condition. The methods are cheap and safe for concurrent use;
// nil means yes, an error says for people why not.
type Health interface {
	// Ready reports whether this member serves clients well: it votes, and does not catch up with others as a newcomer.
	Ready() error
	// Quorum reports whether this site reaches a quorum, so that operations can be served here.
	Quorum() error
}

// New returns a handler of /healthz (200 while the process runs its handlers), /readyz and /quorumz (200, or 503 with
// the reason), and /metrics if metrics is not nil.
func New(health Health, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", Probe(func() error { return nil }))
	mux.Handle("GET /readyz", Probe(health.Ready))
	mux.Handle("GET /quorumz", Probe(health.Quorum))
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

// Probe answers 200, or 503 with the reason if the check returns one.
func Probe(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		text := "ok"
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = err.Error()
		}
		// The prober may be gone; there is no one else to tell.
		_, _ = w.Write([]byte(text + "\n"))
	})
}
