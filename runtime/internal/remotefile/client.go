// Package remotefile downloads files from URLs that tenants name, for package fetch. It sends GET
// requests by https to public addresses, and nothing that identifies the service or a user.
package remotefile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/publicnet"
)

const (
	userAgent    = "mediastack"
	maxRedirects = 3
	// maxHeader bounds the header of a response, in bytes.
	maxHeader = 32 << 10
)

// Deps are the dependencies of a Client. The zero value is that of the system.
type Deps struct {
	// Roots are the certification authorities that are trusted; nil = those of the system.
	Roots *x509.CertPool
	// Resolver looks up names; nil = that of the system.
	Resolver *net.Resolver
}

// Client sends the requests. It is safe for concurrent use.
type Client struct {
	cfg       Config
	policy    publicnet.Policy
	dialer    *net.Dialer
	transport *http.Transport
}

var _ fetch.Source = (*Client)(nil)

// New returns a Client.
func New(cfg Config, deps Deps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, policy: publicnet.Policy{Settings: "SERVICE_FETCH", Public: true, Ports: cfg.Ports}}
	c.policy.Allow, _ = publicnet.ParseNetworks("", cfg.AllowNetworks) // Validate has parsed both
	c.policy.Deny, _ = publicnet.ParseNetworks("", cfg.DenyNetworks)
	c.dialer = &net.Dialer{Timeout: cfg.HeaderTimeout, Resolver: deps.Resolver, Control: c.policy.Control}
	http1 := &http.Protocols{}
	http1.SetHTTP1(true)
	c.transport = &http.Transport{
		Proxy: nil, // the environment must not send requests elsewhere
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return publicnet.Dial(ctx, c.dialer, network, address)
		},
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: deps.Roots},
		TLSHandshakeTimeout: cfg.HeaderTimeout, ResponseHeaderTimeout: cfg.HeaderTimeout, MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives:  true, // a connection never serves two tenants
		DisableCompression: true, // the bytes that are sent are the bytes that are counted
		Protocols:          http1,
	}
	return c, nil
}

// Open implements fetch.Source. Errors are fetch.Failures.
func (c *Client) Open(ctx context.Context, text string) (fetch.File, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeoutCause(ctx, c.cfg.Timeout, errOverall)
	end := func(why error) { cancel(why); stop() }
	response, err := c.follow(ctx, text)
	if err != nil {
		err = failure(ctx, err)
		end(err)
		return fetch.File{}, err
	}
	if err := checkResponse(response); err != nil {
		end(err)
		_ = response.Body.Close()
		return fetch.File{}, err
	}
	return fetch.File{
		Body: newBody(ctx, end, response.Body, c.cfg), Size: max(0, response.ContentLength), MimeType: response.Header.Get("Content-Type"),
	}, nil
}

// follow sends the request, and follows redirects.
func (c *Client) follow(ctx context.Context, text string) (*http.Response, error) {
	target, err := c.parse(text)
	if err != nil {
		return nil, invalidURL(err)
	}
	for redirects := 0; ; redirects++ {
		response, err := c.get(ctx, target)
		if err != nil {
			return nil, err
		}
		if !isRedirect(response.StatusCode) {
			return response, nil
		}
		_ = response.Body.Close()
		if redirects == maxRedirects {
			return nil, fetch.Fail(fetch.RedirectNotAllowed, "the server redirects more than %d times", maxRedirects)
		}
		if target, err = c.redirect(target, response.Header.Get("Location")); err != nil {
			return nil, err
		}
	}
}

// get sends one request without cookies, credentials and Referer.
func (c *Client) get(ctx context.Context, target *url.URL) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, fetch.Fail(fetch.InvalidResponse, "the URL is malformed")
	}
	request.Header = http.Header{"User-Agent": {userAgent}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
	return c.transport.RoundTrip(request)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirect returns the target of a redirect, which is judged as the first URL is.
func (c *Client) redirect(from *url.URL, location string) (*url.URL, error) {
	reference, err := url.Parse(location)
	if location == "" || err != nil {
		return nil, fetch.Fail(fetch.RedirectNotAllowed, "the server redirects to no valid URL")
	}
	target, err := c.parse(from.ResolveReference(reference).String())
	if err != nil {
		return nil, fetch.Fail(fetch.RedirectNotAllowed, "the server redirects to a URL from which files cannot be fetched")
	}
	return target, nil
}

// invalidURL is for a URL that has become invalid since the job was queued, by the configuration.
func invalidURL(err error) error {
	return fetch.Fail(fetch.AddressNotAllowed, "%s", fault.From(err).Public)
}

// checkResponse rejects a response that is not the whole file.
func checkResponse(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		return fetch.Fail(fetch.StatusCode(response.StatusCode), "the server answered with status %d", response.StatusCode)
	}
	for _, encoding := range response.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return fetch.Fail(fetch.UnsupportedEncoding, "the server sends the file with a content encoding, although the request excludes it")
		}
	}
	return nil
}

// errOverall and errStalled are the causes of the end of a request.
var (
	errOverall = errors.New("the time for one file is over")
	errStalled = errors.New("the server stalls")
)

// failure returns the failure of an error of a request. The tenant sees nothing of the error's text, which may name an internal address:
// it is the cause, for the log.
func failure(ctx context.Context, err error) error {
	var known *fetch.Failure
	if errors.As(err, &known) {
		return err
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errOverall):
		return failed(fetch.Timeout, "the file did not arrive in time", cause)
	case errors.Is(cause, errStalled):
		return failed(fetch.Timeout, "the server sends too slowly", cause)
	case cause != nil:
		return fmt.Errorf("fetch: %w", cause) // the caller's
	}
	var dns *net.DNSError
	var notAllowed *publicnet.NotAllowedError
	var timeout net.Error
	switch {
	case errors.As(err, &notAllowed):
		return addressNotAllowed(notAllowed)
	case errors.As(err, &dns) && !dns.IsTimeout && !dns.IsTemporary:
		return addressNotAllowed(fmt.Errorf("the name of the host did not resolve: %w", dns))
	case isTLS(err):
		return failed(fetch.TLSFailed, "the server has no valid certificate for its name, or no TLS 1.2", err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return failed(fetch.Timeout, "the server did not answer in time", err)
	case isConnection(err):
		return failed(fetch.Unreachable, "the server cannot be reached", err)
	}
	return failed(fetch.InvalidResponse, "the server did not answer as HTTP requires", err)
}

// failed returns a failure with a cause, without the URL, which may have secrets of the tenant.
func failed(code fetch.Code, text string, cause error) error {
	var request *url.Error
	if errors.As(cause, &request) {
		cause = request.Err
	}
	return &fetch.Failure{Code: code, Text: text, Cause: cause}
}

// addressNotAllowed has the same text for every cause, so that nobody learns which names exist in the cluster.
func addressNotAllowed(cause error) error {
	return &fetch.Failure{Code: fetch.AddressNotAllowed, Text: "the host has no public address", Cause: cause}
}

func isTLS(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		host         x509.HostnameError
	)
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &host) ||
		strings.HasPrefix(err.Error(), "tls: ") || strings.Contains(err.Error(), "remote error: tls: ")
}

func isConnection(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) || errors.Is(err, syscall.ECONNRESET)
}
