package server

import (
	"net/http"

	httplistener "github.com/georegister/georegister/replica/listener/http"
)

// NewHTTP serves /livez (503 once the witness has failed), /readyz (503 also while it stops), both with the reason, and
// /metrics if metrics is not nil. A witness that was just started has no lives, and is ready for the manager to begin
// some.
func NewHTTP(s *Server, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", httplistener.Probe(s.failure))
	mux.Handle("GET /readyz", httplistener.Probe(s.Err))
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}
