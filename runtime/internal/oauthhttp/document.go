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
	"mediastack.dev/runtime/internal/lru"
)

// Bounds of the fetch of an application's document.
const (
	maxMetadataSize     = 5 << 10
	metadataTimeout     = 5 * time.Second
	metadataTTL         = time.Hour
	metadataNegativeTTL = time.Minute
	metadataMaxStale    = 24 * time.Hour // while it can't be fetched again
	maxCachedMetadata   = 1000
	maxMetadataFetches  = 8 // at once
)

// clientMetadata is what an application says of itself: at the address that is its id (Client
// ID Metadata Documents), or when it registers (RFC 7591, section 2).
type clientMetadata struct {
	ClientID     string   `json:"client_id"`
	Name         string   `json:"client_name"`
	Website      string   `json:"client_uri"`
	RedirectURIs []string `json:"redirect_uris"`
	AuthMethod   string   `json:"token_endpoint_auth_method"`
}

// metadata fetches and remembers. It is safe for concurrent use.
type metadataFetcher struct {
	now     func() time.Time
	client  *http.Client
	flights singleflight.Group
	slots   chan struct{}

	mu    sync.Mutex
	cache *lru.Map[string, cacheEntry]
	// negativeCache are apart, so that addresses which anybody can make up push nothing good out.
	negativeCache *lru.Map[string, cacheEntry]
}

type cacheEntry struct {
	metadata   clientMetadata
	err        error
	expiresAt  time.Time // when to ask again
	staleUntil time.Time // how long a document is good without a better answer
}

// newMetadataFetcher makes a client that reaches only what permit says, judged when a
// connection is made: after the name was looked up, so that no second answer of a name
// server leads elsewhere.
func newMetadataFetcher(allow func(netip.AddrPort) error, now func() time.Time) *metadataFetcher {
	dialer := &net.Dialer{Timeout: metadataTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read the address: %w", err)
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

// globalUnicast6 is all that is given out of IPv6: what lies outside of it leads to this machine
// or its neighbours, to IPv4 through a translator, or nowhere.
var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// reservedPrefixes are the networks that are not the internet's, beyond those that netip names.
// 168.63.129.16 is what a cloud answers its own machines at.
var reservedPrefixes = func() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"168.63.129.16/32", "203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// allowPublic permits https on the public internet.
func allowPublic(to netip.AddrPort) error {
	address := to.Addr()
	switch {
	case to.Port() != 443:
		return fmt.Errorf("port %d is not https", to.Port())
	case !address.IsGlobalUnicast() || address.IsPrivate() || address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsMulticast() ||
		address.Is6() && !globalUnicast6.Contains(address) || slices.ContainsFunc(reservedPrefixes, func(p netip.Prefix) bool { return p.Contains(address) }):
		return fmt.Errorf("%s is not a public address", address)
	}
	return nil
}

// isMetadataURL reports whether a client id is the address of a document.
func isMetadataURL(id string) bool {
	uri, err := url.Parse(id)
	if err != nil || uri.Scheme != "https" || !isWellFormedURI(id, uri) || uri.Hostname() == "" || uri.RawQuery != "" || uri.ForceQuery ||
		uri.Path == "" || uri.Path == "/" || uri.Port() != "" && uri.Port() != "443" {
		return false
	}
	return !slices.ContainsFunc(strings.Split(uri.Path, "/"), func(part string) bool { return part == "." || part == ".." })
}

// get returns the document at an address. NotFound when there is none that is good,
// Unavailable when too many others are being fetched.
func (d *metadataFetcher) get(ctx context.Context, id string) (clientMetadata, error) {
	if entry, ok := d.cached(id); ok {
		return entry.metadata, entry.err
	}
	select {
	case result := <-d.flights.DoChan(id, func() (any, error) { return d.refresh(context.WithoutCancel(ctx), id), nil }):
		entry, _ := result.Val.(cacheEntry)
		return entry.metadata, entry.err
	case <-ctx.Done(): // others may wait for the same
		return clientMetadata{}, ctx.Err()
	}
}

// cached returns what is known of an address that is not due yet.
func (d *metadataFetcher) cached(id string) (cacheEntry, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, entries := range []*lru.Map[string, cacheEntry]{d.cache, d.negativeCache} {
		if entry, ok := entries.Get(id); ok && d.now().Before(entry.expiresAt) {
			return entry, true
		}
	}
	return cacheEntry{}, false
}

// authorizationRequest fetches and remembers. A document that was good goes on being so for a while: an
// application does not stop working because its site is down. That there was no place is
// said of no address.
func (d *metadataFetcher) refresh(ctx context.Context, id string) cacheEntry {
	metadata, err := d.fetch(ctx, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	last, ok := d.cache.Get(id)
	switch {
	case err == nil:
		entry := cacheEntry{metadata: metadata, expiresAt: now.Add(metadataTTL), staleUntil: now.Add(metadataMaxStale)}
		d.cache.Put(id, entry)
		d.negativeCache.Delete(id)
		return entry
	case ok && now.Before(last.staleUntil):
		last.expiresAt = now.Add(metadataNegativeTTL)
		d.cache.Put(id, last)
		return last
	case fault.Is(err, fault.Unavailable):
		return cacheEntry{err: err}
	}
	entry := cacheEntry{err: fault.Wrap(err, fault.NotFound, "the application's description can't be read"), expiresAt: now.Add(metadataNegativeTTL)}
	d.negativeCache.Put(id, entry)
	return entry
}

// get waits for a place and fetches, each for a while.
func (d *metadataFetcher) fetch(ctx context.Context, id string) (clientMetadata, error) {
	tooLong := time.NewTimer(metadataTimeout)
	defer tooLong.Stop()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-tooLong.C:
		return clientMetadata{}, fault.New(fault.Unavailable, "too many applications are being looked up")
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, id, http.NoBody)
	if err != nil {
		return clientMetadata{}, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "mediastack")
	response, err := d.client.Do(request)
	if err != nil {
		return clientMetadata{}, err
	}
	defer func() { _ = response.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return clientMetadata{}, fmt.Errorf("the answer is %s of type %q", response.Status, kind)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMetadataSize+1))
	if err != nil {
		return clientMetadata{}, err
	}
	if len(body) > maxMetadataSize {
		return clientMetadata{}, errors.New("the document is longer than 5 KiB")
	}
	var metadata clientMetadata
	if err := json.Unmarshal(body, &metadata); err != nil {
		return clientMetadata{}, err
	}
	switch {
	case metadata.ClientID != id:
		return clientMetadata{}, errors.New("the document names another client_id")
	case metadata.AuthMethod != "" && metadata.AuthMethod != "none":
		return clientMetadata{}, errors.New("the application wants to authenticate with a secret")
	}
	return metadata, nil
}
