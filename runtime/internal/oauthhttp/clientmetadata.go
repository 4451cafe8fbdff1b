package oauthhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/lru"
)

// Bounds of fetching and caching metadata documents.
const (
	maxMetadataSize     = 5 << 10
	metadataTimeout     = 5 * time.Second
	metadataTTL         = time.Hour
	metadataNegativeTTL = time.Minute
	metadataMaxStale    = 24 * time.Hour // how long a document is used while fetching fails
	maxCachedMetadata   = 1000
	maxMetadataFetches  = 8 // in parallel
)

// clientMetadata is the metadata of a client (RFC 7591, section 2), from its registration or
// from its Client ID Metadata Document.
type clientMetadata struct {
	ClientID     string   `json:"client_id"`
	Name         string   `json:"client_name"`
	Website      string   `json:"client_uri"`
	RedirectURIs []string `json:"redirect_uris"`
	AuthMethod   string   `json:"token_endpoint_auth_method"`
}

// metadataFetcher fetches and caches Client ID Metadata Documents. It is safe for concurrent use.
type metadataFetcher struct {
	now     func() time.Time
	client  *http.Client
	flights singleflight.Group
	slots   chan struct{}

	mu    sync.Mutex
	cache *lru.Map[string, cacheEntry]
	// negativeCache is separate, so that invented URLs do not evict valid documents.
	negativeCache *lru.Map[string, cacheEntry]
}

type cacheEntry struct {
	metadata   clientMetadata
	err        error
	expiresAt  time.Time // when to fetch again
	staleUntil time.Time // when to stop using the document if fetching keeps failing
}

// newMetadataFetcher returns a fetcher that connects only to addresses that allow accepts. The
// check runs when the connection is made, after the name was resolved, so that DNS
// rebinding cannot bypass it.
func newMetadataFetcher(allow func(netip.AddrPort) error, now func() time.Time) *metadataFetcher {
	dialer := &net.Dialer{Timeout: metadataTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("parse the address: %w", err)
		}
		return allow(netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port()))
	}}
	transport := &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: metadataTimeout,
		ResponseHeaderTimeout: metadataTimeout, MaxResponseHeaderBytes: 16 << 10, ForceAttemptHTTP2: true,
	}
	return &metadataFetcher{
		now: now,
		client: &http.Client{Transport: transport, Timeout: metadataTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		slots: make(chan struct{}, maxMetadataFetches), cache: lru.New[string, cacheEntry](maxCachedMetadata), negativeCache: lru.New[string, cacheEntry](maxCachedMetadata),
	}
}

// isMetadataURL reports whether a client ID is the URL of a metadata document.
func isMetadataURL(id string) bool {
	uri, err := url.Parse(id)
	if err != nil || uri.Scheme != "https" || !isWellFormedURI(id, uri) || uri.Hostname() == "" || uri.RawQuery != "" || uri.ForceQuery ||
		uri.Path == "" || uri.Path == "/" || uri.Port() != "" && uri.Port() != "443" {
		return false
	}
	return !slices.ContainsFunc(strings.Split(uri.Path, "/"), func(part string) bool { return part == "." || part == ".." })
}

// get returns the metadata document at a URL, from the cache if possible. NotFound if there is
// no valid document, Unavailable if too many fetches are in progress.
func (f *metadataFetcher) get(ctx context.Context, id string) (clientMetadata, error) {
	if entry, ok := f.cached(id); ok {
		return entry.metadata, entry.err
	}
	select {
	case result := <-f.flights.DoChan(id, func() (any, error) { return f.refresh(context.WithoutCancel(ctx), id), nil }):
		entry, _ := result.Val.(cacheEntry)
		return entry.metadata, entry.err
	case <-ctx.Done(): // the fetch continues for other callers
		return clientMetadata{}, ctx.Err()
	}
}

// cached returns the cache entry of a URL unless it has expired.
func (f *metadataFetcher) cached(id string) (cacheEntry, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, entries := range []*lru.Map[string, cacheEntry]{f.cache, f.negativeCache} {
		if entry, ok := entries.Get(id); ok && f.now().Before(entry.expiresAt) {
			return entry, true
		}
	}
	return cacheEntry{}, false
}

// refresh fetches a document and updates the caches. A valid document is used for
// metadataMaxStale, so that a client works while its website is down. Unavailable is a
// condition of this service and not cached.
func (f *metadataFetcher) refresh(ctx context.Context, id string) cacheEntry {
	metadata, err := f.fetch(ctx, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	last, ok := f.cache.Get(id)
	switch {
	case err == nil:
		entry := cacheEntry{metadata: metadata, expiresAt: now.Add(metadataTTL), staleUntil: now.Add(metadataMaxStale)}
		f.cache.Put(id, entry)
		f.negativeCache.Delete(id)
		return entry
	case ok && now.Before(last.staleUntil):
		last.expiresAt = now.Add(metadataNegativeTTL)
		f.cache.Put(id, last)
		return last
	case fault.Is(err, fault.Unavailable):
		return cacheEntry{err: err}
	}
	entry := cacheEntry{err: fault.Wrap(err, fault.NotFound, "the client metadata document cannot be read"), expiresAt: now.Add(metadataNegativeTTL)}
	f.negativeCache.Put(id, entry)
	return entry
}

// fetch waits for a slot and fetches a document. Both have a timeout.
func (f *metadataFetcher) fetch(ctx context.Context, id string) (clientMetadata, error) {
	timeout := time.NewTimer(metadataTimeout)
	defer timeout.Stop()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-timeout.C:
		return clientMetadata{}, fault.New(fault.Unavailable, "too many client metadata documents are being fetched")
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	body, err := f.download(ctx, id)
	if err != nil {
		return clientMetadata{}, err
	}
	return parseMetadata(id, body)
}

// download returns the body of a metadata document.
func (f *metadataFetcher) download(ctx context.Context, id string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, id, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "mediastack")
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	contentType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK || contentType != "application/json" && !strings.HasSuffix(contentType, "+json") {
		return nil, fmt.Errorf("the response is %s of type %q", response.Status, contentType)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMetadataSize+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxMetadataSize {
		return nil, errors.New("the document is longer than 5 KiB")
	}
	return body, nil
}

// parseMetadata parses a metadata document and checks that it belongs to its URL and to a
// public client.
func parseMetadata(id string, document []byte) (clientMetadata, error) {
	var metadata clientMetadata
	if err := json.Unmarshal(document, &metadata); err != nil {
		return clientMetadata{}, err
	}
	switch {
	case metadata.ClientID != id:
		return clientMetadata{}, errors.New("the document names another client_id")
	case metadata.AuthMethod != "" && metadata.AuthMethod != "none":
		return clientMetadata{}, errors.New("the client requires authentication with a secret")
	}
	return metadata, nil
}
