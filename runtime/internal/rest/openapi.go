package rest

import "net/http"

// serveSpec answers with the OpenAPI document.
func (a *API) serveSpec(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(a.spec) // an error means that the client disconnected
}
