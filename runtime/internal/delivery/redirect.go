package delivery

import (
	"net/http"
	"time"

	"mediastack.dev/runtime/internal/httpapi"
)

// redirect redirects the client to the object store, after the same checks as for a file
// that is sent by this process. The object store can't send the headers that keep a browser
// from running a file, but types that could run are never sent inline.
func (d *Delivery) redirect(w http.ResponseWriter, r *http.Request, file resolvedFile) {
	ttl := d.ttl
	if !file.public {
		ttl = max(time.Second, min(ttl, file.expiresIn).Truncate(time.Second))
	}
	file.maxAge = min(file.maxAge, ttl)
	location, err := d.presign.Presign(r.Context(), r.Method, file.owner.Bucket, file.object.Key, ttl, map[string]string{
		"content-type":        contentType(file.object.MimeType),
		"content-disposition": disposition(file),
		"cache-control":       cacheControl(file),
	})
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Location", location)
	// Every download must pass the checks here: a deleted item is not redirected.
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusFound)
}
