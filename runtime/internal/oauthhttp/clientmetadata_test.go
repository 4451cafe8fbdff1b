package oauthhttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
)

func TestAllowPublic_RejectsReservedAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.170", "192.0.2.1", "192.168.1.1",
		"192.88.99.1", "198.18.0.1", "198.51.100.1", "168.63.129.16", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "3fff::1",
		"::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8", "1000::1", "4000::1", "5f00::1", "8000::1"} {
		if allowPublic(netip.AddrPortFrom(netip.MustParseAddr(text), 443)) == nil {
			t.Errorf("%s is asked", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "104.16.0.1", "168.63.129.15", "2606:4700::1111", "2a00:1450::1"} {
		if err := allowPublic(netip.AddrPortFrom(netip.MustParseAddr(text), 443)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if allowPublic(netip.AddrPortFrom(netip.MustParseAddr(text), 8443)) == nil {
			t.Errorf("%s is asked at another port", text)
		}
	}
}

func TestIsMetadataURL_AcceptsHTTPSWithAPathOnly(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"https://claude.ai/oauth/client.json": true,
		"https://app.test:443/c":              true,
		"https://app.test":                    false,
		"https://app.test/":                   false,
		"https://app.test:8443/c":             false,
		"http://app.test/c":                   false,
		"https://app.test/a/../c":             false,
		"https://app.test/./c":                false,
		"https://app.test/c?x=1":              false,
		"https://app.test/c?":                 false,
		"https://app.test/c#x":                false,
		"https://user@app.test/c":             false,
		"https://app.test;sandbox/c":          false,
		"https://*.app.test/c":                false,
		"mcl_x":                               false,
	} {
		if got := isMetadataURL(id); got != want {
			t.Errorf("%s: %t", id, got)
		}
	}
}

// site serves documents over TLS on loopback; its names lead there by the test's own
// resolver.
type site struct {
	*metadataFetcher
	asked  atomic.Int64
	dialed atomic.Int64
}

// newSite starts a site and returns a fetcher that may connect to it.
func newSite(t *testing.T, handler http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.asked.Add(1); handler(w, r) }))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s.metadataFetcher = newMetadataFetcher(func(netip.AddrPort) error { s.dialed.Add(1); return nil }, time.Now)
	transport := s.client.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, server.Listener.Addr().String())
	}
	return s
}

// id returns a URL for which the certificate of the site is valid.
const id = "https://example.com/client.json"

func answering(kind string, document any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_ = json.NewEncoder(w).Encode(document)
	}
}

func described() map[string]any {
	return map[string]any{"client_id": id, "client_name": "Example", "redirect_uris": []string{"https://example.com/cb"}, "token_endpoint_auth_method": "none", "unknown": 1}
}

func TestMetadataFetcher_FetchesADocumentOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, answering("application/json; charset=utf-8", described()))
	for range 3 {
		metadata, err := s.get(t.Context(), id)
		if err != nil || metadata.Name != "Example" || len(metadata.RedirectURIs) != 1 {
			t.Fatalf("%+v %v", metadata, err)
		}
	}
	if s.asked.Load() != 1 || s.dialed.Load() != 1 {
		t.Errorf("asked %d times, judged %d connections", s.asked.Load(), s.dialed.Load())
	}
}

func TestMetadataFetcher_RejectsInvalidDocuments(t *testing.T) {
	t.Parallel()
	with := func(name string, value any) map[string]any {
		d := described()
		d[name] = value
		return d
	}
	for name, handler := range map[string]http.HandlerFunc{
		"another id":   answering("application/json", with("client_id", "https://example.com/other.json")),
		"no id":        answering("application/json", with("client_id", nil)),
		"a secret":     answering("application/json", with("token_endpoint_auth_method", "client_secret_basic")),
		"a page":       answering("text/html", described()),
		"too long":     answering("application/json", with("x", strings.Repeat("x", 5<<10))),
		"no object":    answering("application/json", []int{1}),
		"wrong types":  answering("application/json", with("redirect_uris", "https://example.com/cb")),
		"no such file": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"a redirect":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere.json", http.StatusFound) },
		"a broken one": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{"))
		},
		"an endless one": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		},
	} {
		s := newSite(t, handler)
		for range 2 { // failures are cached as well
			if metadata, err := s.get(t.Context(), id); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %+v %v", name, metadata, err)
			}
		}
		if s.asked.Load() != 1 {
			t.Errorf("%s: asked %d times", name, s.asked.Load())
		}
	}
}

// TestMetadataFetcher_BlocksDNSRebinding uses a name server that answers with a
// public address first, and with the machine itself from then on (DNS rebinding).
func TestMetadataFetcher_BlocksDNSRebinding(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(inside.Close)
	where, err := url.Parse(inside.URL)
	if err != nil {
		t.Fatal(err)
	}
	var judged []netip.AddrPort
	d := newMetadataFetcher(func(to netip.AddrPort) error {
		judged = append(judged, to)
		return allowPublic(netip.AddrPortFrom(to.Addr(), 443))
	}, time.Now)
	// The address of the connection decides, not an earlier lookup.
	transport := d.client.Transport.(*http.Transport)
	dial := transport.DialContext
	answers := []string{"192.0.2.1:443", where.Host, net.JoinHostPort("::ffff:127.0.0.1", where.Port())}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return dial(ctx, network, next)
	}
	for i := range 3 {
		if _, err := d.get(t.Context(), fmt.Sprintf("https://rebound.test/%d.json", i)); !fault.Is(err, fault.NotFound) {
			t.Errorf("fetch %d: %v", i, err)
		}
	}
	if reached.Load() || len(judged) != 3 {
		t.Errorf("reached: %t, judged: %v", reached.Load(), judged)
	}
}

func TestMetadataFetcher_UsesNoProxy(t *testing.T) {
	if !testenv.InEnvironment(t, "HTTPS_PROXY=http://127.0.0.1:1") {
		return
	}
	s := newSite(t, answering("application/json", described()))
	if _, err := s.get(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// AnswerDocuments replaces the transport that fetches metadata documents.
func (a *API) AnswerDocuments(from http.RoundTripper) { a.metadata.client.Transport = from }

// origin is a transport without a network, for tests with a fake clock.
type origin func(*http.Request) (*http.Response, error)

func (o origin) RoundTrip(r *http.Request) (*http.Response, error) { return o(r) }

// good returns a valid document for any URL.
func good(r *http.Request) (*http.Response, error) {
	body := fmt.Sprintf(`{"client_id": %q, "client_name": "Example", "redirect_uris": ["https://example.com/cb"]}`, r.URL)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func down(*http.Request) (*http.Response, error) { return nil, errors.New("the site is down") }

func newOrigin(response origin) *metadataFetcher {
	d := newMetadataFetcher(allowPublic, time.Now)
	d.client.Transport = response
	return d
}

func TestMetadataFetcher_DoesNotCacheASlotTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := newOrigin(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "slow.test" {
				<-gate
			}
			return good(r)
		})
		for i := range maxMetadataFetches {
			go func() { _, _ = d.get(t.Context(), fmt.Sprintf("https://slow.test/%d", i)) }()
		}
		synctest.Wait()
		if _, err := d.get(t.Context(), id); !fault.Is(err, fault.Unavailable) {
			t.Errorf("without a place: %v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { _, err := d.get(gone, id); left <- err }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone waits for %v", err)
		}
		close(gate)
		synctest.Wait()
		if metadata, err := d.get(t.Context(), id); err != nil || metadata.Name != "Example" {
			t.Errorf("with a place: %+v %v", metadata, err)
		}
	})
}

func TestMetadataFetcher_ServesStaleDocumentForADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		response, asked := good, 0
		d := newOrigin(func(r *http.Request) (*http.Response, error) { asked++; return response(r) })
		fetch := func(after time.Duration, wantAsked int, wantGood bool) {
			t.Helper()
			<-time.After(after) //nolint:forbidigo // the clock of synctest
			if _, err := d.get(t.Context(), id); (err == nil) != wantGood || asked != wantAsked {
				t.Fatalf("asked %d times: %v", asked, err)
			}
		}
		fetch(0, 1, true)
		response = down
		fetch(59*time.Minute, 1, true)
		fetch(2*time.Minute, 2, true)
		fetch(30*time.Second, 2, true) // failures are cached
		fetch(31*time.Second, 3, true)
		fetch(22*time.Hour, 4, true)
		fetch(time.Hour, 5, false)
		fetch(30*time.Second, 5, false)
		response = good
		fetch(31*time.Second, 6, true)
		response = down
		fetch(2*time.Hour, 7, true)
	})
}

func TestMetadataFetcher_FailuresDoNotEvictValidDocuments(t *testing.T) {
	t.Parallel()
	asked := 0
	d := newOrigin(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "example.com" {
			asked++
			return good(r)
		}
		return down(r)
	})
	for i := range maxCachedMetadata + 10 {
		if i == 0 {
			if _, err := d.get(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.get(t.Context(), fmt.Sprintf("https://evil.test/%d", i)); !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
	}
	if _, err := d.get(t.Context(), id); err != nil || asked != 1 || d.negativeCache.Len() != maxCachedMetadata {
		t.Errorf("asked %d times, %d failures: %v", asked, d.negativeCache.Len(), err)
	}
}
