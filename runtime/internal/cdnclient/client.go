// Package cdnclient purges tags from the CDN in front of the service. Package cdn calls it. The addresses are those of the installation's
// admin, so they are not judged as the ones that tenants name.
package cdnclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"mediastack.dev/runtime/internal/answer"
	"mediastack.dev/runtime/webhook"
)

const (
	// MaxTags is how many tags one purge has. Cloudflare takes 100 (https://developers.cloudflare.com/cache/how-to/purge-cache/), and took 30 for
	// years; Fastly takes 256 (https://www.fastly.com/documentation/reference/api/purging/).
	MaxTags = 30
	// maxTag is the length of a tag, in bytes.
	maxTag    = 64
	userAgent = "mediastack"
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 32 << 10
	// idleTime is for how long a connection that no purge uses is kept.
	idleTime = 90 * time.Second
)

// Deps are the dependencies of a Client. The zero value is that of the system.
type Deps struct {
	// Roots are the certification authorities that are trusted; nil = those of the system.
	Roots *x509.CertPool
	// Resolver looks up names; nil = that of the system.
	Resolver *net.Resolver
	// Now is the clock of signatures and of Retry-After; nil = that of the system.
	Now func() time.Time
}

// Client purges tags. It is safe for concurrent use.
type Client struct {
	cfg       Config
	endpoints []endpoint
	keys      [][]byte // that sign, for webhook
	now       func() time.Time
	transport *http.Transport
}

// endpoint is what takes purges.
type endpoint struct {
	url string
	// name is how errors call it: its host, and its port if it has one. A path may have the id of a zone.
	name string
}

// Error is why a purge was not accepted. Its text is for the administrator's log: it has no key and no path of a URL.
type Error struct {
	Text string
	// Status is that of the answer; 0 = there was none. Of several endpoints it is that of the first one that has failed.
	Status int
	// Pause is for how long the CDN asks for no other request; zero = it does not.
	Pause time.Duration
}

// Error returns Text.
func (e *Error) Error() string { return e.Text }

// RetryAfter returns Pause.
func (e *Error) RetryAfter() time.Duration { return e.Pause }

// New returns a Client. The config must be enabled.
func New(cfg Config, deps Deps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.Enabled() {
		return nil, errors.New("SERVICE_CDN_PURGE is not set: there is nothing to purge")
	}
	c := &Client{cfg: cfg, now: deps.Now}
	if c.now == nil {
		c.now = time.Now
	}
	if cfg.Purger == byWebhook {
		key, err := webhook.ParseSecret(cfg.Key)
		if err != nil {
			return nil, err // Validate has parsed it
		}
		c.keys = [][]byte{key}
	}
	for _, text := range cfg.URLs {
		target, err := url.Parse(text)
		if err != nil {
			return nil, errors.New("SERVICE_CDN_PURGE_URL is malformed") // Validate has parsed it
		}
		c.endpoints = append(c.endpoints, endpoint{text, target.Host})
	}
	http1 := &http.Protocols{}
	http1.SetHTTP1(true)
	c.transport = &http.Transport{
		Proxy:           nil, // as for all requests of the service: a variable of the environment must not send the key elsewhere
		DialContext:     (&net.Dialer{Timeout: cfg.Timeout, Resolver: deps.Resolver}).DialContext,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: deps.Roots}, TLSHandshakeTimeout: cfg.Timeout,
		MaxResponseHeaderBytes: maxHeader, MaxIdleConnsPerHost: 2, IdleConnTimeout: idleTime, DisableCompression: true, Protocols: http1,
	}
	return c, nil
}

// Purge removes what has one of the tags from the CDN. It returns nil if every endpoint has accepted that, otherwise an *Error: then all
// must be asked again, which does no harm. All are asked at once, so one that is away holds no other one up.
func (c *Client) Purge(ctx context.Context, tags []string) error {
	if len(tags) == 0 {
		return nil
	}
	if err := checkTags(tags); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	failures := make([]*Error, len(c.endpoints))
	var requests sync.WaitGroup
	for i, to := range c.endpoints {
		requests.Go(func() { failures[i] = c.purge(ctx, to, tags) })
	}
	requests.Wait()
	return join(failures)
}

// checkTags rejects what would be other tags in the header of a request.
func checkTags(tags []string) error {
	if len(tags) > MaxTags {
		return &Error{Text: fmt.Sprintf("a purge has at most %d tags, not %d", MaxTags, len(tags))}
	}
	for _, tag := range tags {
		if tag == "" || len(tag) > maxTag || strings.ContainsFunc(tag, isOther) {
			return &Error{Text: fmt.Sprintf("a tag must be 1 to %d letters, digits, - or _", maxTag)}
		}
	}
	return nil
}

// isOther reports whether a character is none of a word: letters, digits, - and _, which need no escaping in headers and JSON.
func isOther(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// join returns the error of a purge by the failures of its endpoints; nil = one has accepted it.
func join(failures []*Error) error {
	var joined *Error
	for _, failure := range failures {
		switch {
		case failure == nil:
		case joined == nil:
			joined = failure
		default:
			joined.Text += "; " + failure.Text
			joined.Pause = max(joined.Pause, failure.Pause)
		}
	}
	if joined == nil {
		return nil // not a nil *Error
	}
	return joined
}

// purge sends the request to one endpoint.
func (c *Client) purge(ctx context.Context, to endpoint, tags []string) *Error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := c.request(ctx, to, tags)
	if err != nil {
		return &Error{Text: "the request to " + to.name + " cannot be made"}
	}
	response, err := c.transport.RoundTrip(request) // it follows no redirect
	if err != nil {
		return &Error{Text: to.name + " " + reason(ctx, err)}
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which does not end with ctx
		return &Error{Text: to.name + " did not answer as HTTP requires", Status: response.StatusCode}
	}
	failure := &Error{Status: response.StatusCode, Pause: answer.RetryAfter(response.Header.Get("Retry-After"), c.now())}
	if c.cfg.Purger == cloudflare {
		if failure.Text = cloudflareProblem(response); failure.Text == "" {
			return nil
		}
		failure.Text = to.name + " " + failure.Text
		return failure
	}
	answer.Discard(response.Body, cancel)
	if response.StatusCode/100 == 2 {
		return nil
	}
	failure.Text = to.name + " answered " + describe(response.StatusCode)
	return failure
}

// describe returns a status with what it means.
func describe(status int) string {
	text := strconv.Itoa(status)
	if meaning := http.StatusText(status); meaning != "" {
		text += " (" + meaning + ")"
	}
	if status/100 == 3 {
		text += ": no redirect is followed"
	}
	return text
}

// reason returns why a request has no answer, without the cause, which may quote the URL.
func reason(ctx context.Context, err error) string {
	var (
		dns          *net.DNSError
		timeout      net.Error
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		operation    *net.OpError
	)
	switch {
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert), strings.Contains(err.Error(), "tls: "):
		return "has no valid certificate for its name, or no TLS 1.2"
	case errors.Is(ctx.Err(), context.Canceled):
		return "was not waited for"
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return "did not answer in time"
	case errors.As(err, &dns):
		return "cannot be found by its name"
	case errors.As(err, &operation), errors.Is(err, io.EOF):
		return "cannot be reached, or has closed the connection"
	}
	return "did not answer as HTTP requires"
}
