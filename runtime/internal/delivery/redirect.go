package delivery

import (
	"net/http"
	"time"

	"mediastack.dev/runtime/internal/httpapi"
)

// redirect sends the client to the object store, after the same checks that a file
// sent from here has to pass. The store can't be told to send the headers that keep a
// browser from running what it opens; but types that could run are never inline.
func (d *Delivery) redirect(w http.ResponseWriter, r *http.Request, file found) {
	ttl := d.ttl
	if !file.public {
		ttl = max(time.Second, min(ttl, file.left).Truncate(time.Second))
	}
	file.maxAge = min(file.maxAge, ttl)
	address, err := d.presign.Presign(r.Context(), r.Method, file.bucket, file.object.Key, ttl, map[string]string{
		"content-type":        contentType(file.object.MimeType),
		"content-disposition": disposition(file),
		"cache-control":       cacheControl(file),
	})
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Location", address)
	// Every download comes by here, so that a deleted item has none.
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusFound)
}
