package delivery

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/lru"
	"mediastack.dev/runtime/rendition"
)

const (
	// presenceTTL is how long the object of a rendition is taken to be in the store after it was found there: the time for
	// which clients are sent to one that was lost meanwhile. presenceTimeout bounds the look, and maxPresent the objects
	// that are remembered, about 100 bytes each.
	presenceTTL     = time.Minute
	presenceTimeout = 5 * time.Second
	maxPresent      = 10_000
)

// presence remembers when objects of renditions were in the object store. It is safe for concurrent use.
type presence struct {
	now func() time.Time

	looks singleflight.Group // one for each object

	mu    sync.Mutex
	until *lru.Map[uuid.UUID, time.Time]
}

func newPresence(now func() time.Time) *presence {
	return &presence{now: now, until: lru.New[uuid.UUID, time.Time](maxPresent)}
}

// has reports whether an object was found a short time ago.
func (p *presence) has(id uuid.UUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.until.Get(id)
	return ok && p.now().Before(until)
}

// found records that an object is in the store.
func (p *presence) found(id uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until.Put(id, p.now().Add(presenceTTL))
}

// findStored finds the rendition of a file in the object store before a client is sent there, and has it made again if the store
// has lost it: the client would get the store's 404, and no request would notice. It may not be stored then. Objects of items
// are not looked for, since nothing can make them again.
//
// Requests for one object share a look, which holds a download slot of one of them: it has a connection to the store. Without a free slot the client
// is redirected without a look.
func (d *Delivery) findStored(r *http.Request, file *resolvedFile) error {
	id, ok := rendition.IDOfObject(file.object.Key)
	if file.picture == nil || !ok || d.present.has(id) {
		return nil
	}
	if file.data == nil { // otherwise it was just stored
		_, err, _ := d.present.looks.Do(id.String(), func() (any, error) { return nil, d.look(r.Context(), *file) })
		switch {
		case isLost(err):
			_, err = d.findAgain(r, file)
			return err
		case err != nil: // clients may reach the store nevertheless
			d.log.WarnContext(r.Context(), "a client is redirected to a rendition that was not looked for", "item", file.item.ID, "account", file.item.AccountID, "error", err)
			return nil
		}
	}
	d.present.found(id)
	return nil
}

// look reads a byte of the object of a file.
func (d *Delivery) look(ctx context.Context, file resolvedFile) error {
	client := ratelimit.ClientPrefix(httpapi.FromContext(ctx).ClientIP)
	if err := d.downloads.Acquire(client); err != nil {
		return err
	}
	defer d.downloads.Release(client)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), presenceTimeout) // other requests wait, too
	defer cancel()
	body, err := d.objects.Open(ctx, file.owner.Bucket, file.object.Key, 0, 1)
	if err == nil {
		_ = body.Close()
	}
	return err
}

// redirect redirects the client to the object store, after the same checks as for a file
// that is sent by this process. The object store can't send the headers that keep a browser
// from running a file, but types that could run are never sent inline.
func (d *Delivery) redirect(w http.ResponseWriter, r *http.Request, file resolvedFile) {
	ttl := d.ttl
	if file.picture != nil {
		ttl = min(ttl, rendition.RedirectTTL)
	}
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

// StoreOrigin returns the origin to which the URLs of a bucket's files redirect: scheme, host and port,
// of which the host may name the bucket. It is empty if this process sends the files. The content
// security policy of a page with pictures must permit it. Nothing is sent.
func (d *Delivery) StoreOrigin(ctx context.Context, bucket string) (string, error) {
	if d.presign == nil {
		return "", nil
	}
	location, err := d.presign.Presign(ctx, http.MethodGet, bucket, "origin", time.Minute, nil)
	if err != nil {
		return "", err
	}
	target, err := url.Parse(location)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "")
	}
	return target.Scheme + "://" + target.Host, nil
}
