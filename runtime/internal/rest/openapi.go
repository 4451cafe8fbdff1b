package rest

import (
	"bytes"
	"net/http"
	"time"
)

// serveSpec answers with the OpenAPI document.
func (a *API) serveSpec(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("ETag", a.specTag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.spec))
}
