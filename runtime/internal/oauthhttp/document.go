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
	documentLongest = 5 << 10
	documentTimeout = 5 * time.Second
	documentAge     = time.Hour
	documentFailAge = time.Minute
	documentLastAge = 24 * time.Hour // while it can't be fetched again
	documentsKept   = 1000
	documentFetches = 8 // at once
)

// document is what an application says of itself: at the address that is its id (Client
// ID Metadata Documents), or when it registers (RFC 7591, section 2).
type document struct {
	ClientID     string   `json:"client_id"`
	Name         string   `json:"client_name"`
	Website      string   `json:"client_uri"`
	RedirectURIs []string `json:"redirect_uris"`
	AuthMethod   string   `json:"token_endpoint_auth_method"`
}

// documents fetches and remembers. It is safe for concurrent use.
type documents struct {
	now     func() time.Time
	client  *http.Client
	flights singleflight.Group
	places  chan struct{}

	mu    sync.Mutex
	known *lru.Map[string, fetched]
	// failed are apart, so that addresses which anybody can make up push nothing good out.
	failed *lru.Map[string, fetched]
}

type fetched struct {
	document document
	err      error
	until    time.Time // when to ask again
	last     time.Time // how long a document is good without a better answer
}

// newDocuments makes a client that reaches only what permit says, judged when a
// connection is made: after the name was looked up, so that no second answer of a name
// server leads elsewhere.
func newDocuments(permit func(netip.AddrPort) error, now func() time.Time) *documents {
	dialer := &net.Dialer{Timeout: documentTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read the address: %w", err)
		}
		return permit(netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port()))
	}}
	transport := &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: documentTimeout,
		ResponseHeaderTimeout: documentTimeout, MaxResponseHeaderBytes: 16 << 10, ForceAttemptHTTP2: true,
	}
	return &documents{
		now: now,
		client: &http.Client{Transport: transport, Timeout: documentTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		places: make(chan struct{}, documentFetches), known: lru.New[string, fetched](documentsKept), failed: lru.New[string, fetched](documentsKept),
	}
}

// unicast6 is all that is given out of IPv6: what lies outside of it leads to this machine
// or its neighbours, to IPv4 through a translator, or nowhere.
var unicast6 = netip.MustParsePrefix("2000::/3")

// notPublic are the networks that are not the internet's, beyond those that netip names.
// 168.63.129.16 is what a cloud answers its own machines at.
var notPublic = func() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"168.63.129.16/32", "203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// publicOnly permits https on the public internet.
func publicOnly(to netip.AddrPort) error {
	address := to.Addr()
	switch {
	case to.Port() != 443:
		return fmt.Errorf("port %d is not https", to.Port())
	case !address.IsGlobalUnicast() || address.IsPrivate() || address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsMulticast() ||
		address.Is6() && !unicast6.Contains(address) || slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(address) }):
		return fmt.Errorf("%s is not a public address", address)
	}
	return nil
}

// documentURL reports whether a client id is the address of a document.
func documentURL(id string) bool {
	uri, err := url.Parse(id)
	if err != nil || uri.Scheme != "https" || !redirectForm(id, uri) || uri.Hostname() == "" || uri.RawQuery != "" || uri.ForceQuery ||
		uri.Path == "" || uri.Path == "/" || uri.Port() != "" && uri.Port() != "443" {
		return false
	}
	return !slices.ContainsFunc(strings.Split(uri.Path, "/"), func(part string) bool { return part == "." || part == ".." })
}

// fetch returns the document at an address. NotFound when there is none that is good,
// Unavailable when too many others are being fetched.
func (d *documents) fetch(ctx context.Context, id string) (document, error) {
	if entry, ok := d.remembered(id); ok {
		return entry.document, entry.err
	}
	select {
	case result := <-d.flights.DoChan(id, func() (any, error) { return d.ask(context.WithoutCancel(ctx), id), nil }):
		entry, _ := result.Val.(fetched)
		return entry.document, entry.err
	case <-ctx.Done(): // others may wait for the same
		return document{}, ctx.Err()
	}
}

// remembered returns what is known of an address that is not due yet.
func (d *documents) remembered(id string) (fetched, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, entries := range []*lru.Map[string, fetched]{d.known, d.failed} {
		if entry, ok := entries.Get(id); ok && d.now().Before(entry.until) {
			return entry, true
		}
	}
	return fetched{}, false
}

// ask fetches and remembers. A document that was good goes on being so for a while: an
// application does not stop working because its site is down. That there was no place is
// said of no address.
func (d *documents) ask(ctx context.Context, id string) fetched {
	found, err := d.get(ctx, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	last, ok := d.known.Get(id)
	switch {
	case err == nil:
		entry := fetched{document: found, until: now.Add(documentAge), last: now.Add(documentLastAge)}
		d.known.Put(id, entry)
		d.failed.Delete(id)
		return entry
	case ok && now.Before(last.last):
		last.until = now.Add(documentFailAge)
		d.known.Put(id, last)
		return last
	case fault.Is(err, fault.Unavailable):
		return fetched{err: err}
	}
	entry := fetched{err: fault.Wrap(err, fault.NotFound, "the application's description can't be read"), until: now.Add(documentFailAge)}
	d.failed.Put(id, entry)
	return entry
}

// get waits for a place and fetches, each for a while.
func (d *documents) get(ctx context.Context, id string) (document, error) {
	tooLong := time.NewTimer(documentTimeout)
	defer tooLong.Stop()
	select {
	case d.places <- struct{}{}:
		defer func() { <-d.places }()
	case <-tooLong.C:
		return document{}, fault.New(fault.Unavailable, "too many applications are being looked up")
	}
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, id, http.NoBody)
	if err != nil {
		return document{}, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "mediastack")
	response, err := d.client.Do(request)
	if err != nil {
		return document{}, err
	}
	defer func() { _ = response.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return document{}, fmt.Errorf("the answer is %s of type %q", response.Status, kind)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, documentLongest+1))
	if err != nil {
		return document{}, err
	}
	if len(body) > documentLongest {
		return document{}, errors.New("the document is longer than 5 KiB")
	}
	var found document
	if err := json.Unmarshal(body, &found); err != nil {
		return document{}, err
	}
	switch {
	case found.ClientID != id:
		return document{}, errors.New("the document names another client_id")
	case found.AuthMethod != "" && found.AuthMethod != "none":
		return document{}, errors.New("the application wants to authenticate with a secret")
	}
	return found, nil
}
