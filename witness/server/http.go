package server

import "net/http"

// NewHTTP serves /livez (503 once the witness has failed), /readyz (503 also while it stops), both with the reason, and
// /metrics if metrics is not nil. A witness that was just started has no lives, and is ready for the manager to begin
// some.
func NewHTTP(s *Server, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", probe(s.failure))
	mux.HandleFunc("GET /readyz", probe(s.Err))
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		text := "ok"
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = err.Error()
		}
		// The prober may be gone; there is no one else to tell.
		_, _ = w.Write([]byte(text + "\n"))
	}
}
