// Package webhookclient sends the deliveries of package webhook to receivers that tenants name: by https to public addresses, and to networks
// of the installation that its admin allows.
package webhookclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"mediastack.dev/runtime/internal/answer"
	"mediastack.dev/runtime/internal/publicnet"
	"mediastack.dev/runtime/webhook"
	"mediastack.dev/runtime/weburl"
)

const (
	userAgent = "mediastack"
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 32 << 10
)

// Deps are the dependencies of a Client. The zero value is that of the system.
type Deps struct {
	// Roots are the certification authorities that are trusted; nil = those of the system.
	Roots *x509.CertPool
	// Resolver looks up names; nil = that of the system.
	Resolver *net.Resolver
}

// Client sends messages. It is safe for concurrent use.
type Client struct {
	cfg Config
	// secure sends by https, and plain by http, for which only allowed networks are.
	secure, plain route
}

// route is how messages are sent by one scheme. The transport connects with dialer, which connects as policy allows.
type route struct {
	policy    publicnet.Policy
	dialer    *net.Dialer
	transport *http.Transport
}

var _ webhook.Sender = (*Client)(nil)

// New returns a Client.
func New(cfg Config, deps Deps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	policy := publicnet.Policy{Settings: "SERVICE_WEBHOOKS", Public: true, Ports: cfg.Ports}
	policy.Allow, _ = publicnet.ParseNetworks("", cfg.AllowNetworks) // Validate has parsed both
	policy.Deny, _ = publicnet.ParseNetworks("", cfg.DenyNetworks)
	policy.AnyPort = policy.Allow
	inside := policy
	inside.Public = false
	return &Client{cfg, newRoute(cfg, deps, policy), newRoute(cfg, deps, inside)}, nil
}

// newRoute returns a route. Each request has a connection of its own, so none serves two tenants.
func newRoute(cfg Config, deps Deps, policy publicnet.Policy) route {
	dialer := &net.Dialer{Timeout: cfg.Timeout, Resolver: deps.Resolver, Control: policy.Control}
	http1 := &http.Protocols{}
	http1.SetHTTP1(true)
	return route{policy, dialer, &http.Transport{
		Proxy: nil, // the environment must not send requests elsewhere
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return publicnet.Dial(ctx, dialer, network, address)
		},
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: deps.Roots},
		TLSHandshakeTimeout: cfg.Timeout, ResponseHeaderTimeout: cfg.Timeout, MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives: true, DisableCompression: true, Protocols: http1,
	}}
}

// by returns the route of a scheme.
func (c *Client) by(scheme string) route {
	if scheme == "http" {
		return c.plain
	}
	return c.secure
}

// Error is the error of a message that has no answer. Tenants read Text, which names no address and no part of the URL; Cause is for the
// administrator's log.
type Error struct {
	Text  string
	Cause error
}

// Error returns Text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns Cause.
func (e *Error) Unwrap() error { return e.Cause }

// Send implements webhook.Sender. Errors are Errors. A redirect is an answer like others. The status counts as soon as it is there, whatever
// becomes of the body.
func (c *Client) Send(ctx context.Context, m webhook.Message) (webhook.Answer, error) {
	target, err := c.parse(m.URL)
	if err != nil {
		return webhook.Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(m.Body))
	if err != nil {
		return webhook.Answer{}, &Error{"the URL is malformed", nil}
	}
	request.GetBody = nil // a message is sent once in an attempt
	request.Header = http.Header{"User-Agent": {userAgent}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"}, "Content-Type": {m.ContentType},
		webhook.HeaderID: {m.ID}, webhook.HeaderTimestamp: {webhook.Timestamp(m.Time)}, webhook.HeaderSignature: {webhook.Signature(m.Keys, m.ID, m.Time, m.Body)}}
	response, err := c.by(target.Scheme).transport.RoundTrip(request)
	if err != nil {
		return webhook.Answer{}, failure(ctx, err)
	}
	if response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which does not end with ctx
		_ = response.Body.Close()
		return webhook.Answer{}, &Error{"the receiver did not answer as HTTP requires", nil}
	}
	answer.Discard(response.Body, cancel)
	return webhook.Answer{Status: response.StatusCode, RetryAfter: answer.RetryAfter(response.Header.Get("Retry-After"), m.Time)}, nil
}

// Check returns an Error unless the client may send to a URL, as far as the URL alone says.
func (c *Client) Check(text string) error {
	_, err := c.parse(text)
	return err
}

func (c *Client) parse(text string) (*url.URL, error) {
	target, err := webhook.ParseURL(text)
	if err != nil {
		return nil, &Error{"the URL " + err.Error(), nil}
	}
	port := weburl.PortOf(target)
	ip, _ := netip.ParseAddr(target.Hostname()) // invalid for a name
	policy := c.by(target.Scheme).policy
	switch {
	case target.Scheme == "http" && len(policy.Allow) == 0:
		return nil, &Error{"the URL must begin with https://: http is for the networks of SERVICE_WEBHOOKS_ALLOW_NETWORKS, and there are none", nil}
	case !policy.AllowsPort(ip, port):
		return nil, &Error{"the URL has a port to which no webhook is sent", nil}
	case ip.IsValid() && !policy.Allows(ip):
		return nil, notAllowed(nil)
	}
	return target, nil
}

// notAllowed has the same text for every cause, so nobody learns which names exist in the cluster.
func notAllowed(cause error) error { return &Error{"the receiver has no public address", cause} }

// failure returns the Error of a request without an answer.
func failure(ctx context.Context, err error) error {
	var request *url.Error
	if errors.As(err, &request) { // it quotes the URL
		err = request.Err
	}
	var (
		dns          *net.DNSError
		address      *publicnet.NotAllowedError
		timeout      net.Error
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		operation    *net.OpError
	)
	switch {
	case errors.As(err, &address):
		return notAllowed(err)
	case errors.As(err, &dns) && !dns.IsTimeout && !dns.IsTemporary:
		return notAllowed(err)
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert), strings.Contains(err.Error(), "tls: "):
		return &Error{"the receiver has no valid certificate for its name, or no TLS 1.2", err}
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return &Error{"the receiver did not answer in time", err}
	case errors.As(err, &operation), errors.Is(err, io.EOF):
		return &Error{"the receiver cannot be reached, or has closed the connection", err}
	}
	return &Error{"the receiver did not answer as HTTP requires", err}
}
