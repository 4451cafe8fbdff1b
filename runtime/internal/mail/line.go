package mail

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

const (
	// keepOpen is how long a connection waits for another letter; mail servers end
	// idle ones after some minutes.
	keepOpen = 10 * time.Second
	// quitPause is how long parting in good order may take.
	quitPause = time.Second
)

// relay is the mail server.
type relay struct {
	cfg      Config
	greeting string // the name for EHLO; empty = this machine's
}

// line is a connection to the mail server, made when it is needed. One goroutine uses it.
type line struct {
	relay  relay
	client *gomail.Client
	smtp   *smtp.Client
	raw    net.Conn
	since  *time.Timer // runs while the line is open and unused
}

// send hands over one message. Nothing of it outlives ctx.
func (l *line) send(ctx context.Context, message *gomail.Msg) error {
	used := l.smtp != nil
	err := l.try(ctx, message)
	// The mail server may have hung up meanwhile, or have had enough of this client.
	if used && again(err) && !message.IsDelivered() && ctx.Err() == nil {
		err = l.try(ctx, message)
	}
	return err
}

// try sends over the line as it is, or over a new one. After an error it is closed.
func (l *line) try(ctx context.Context, message *gomail.Msg) error {
	if l.since != nil {
		l.since.Stop()
	}
	if l.smtp == nil {
		if err := l.dial(ctx); err != nil {
			return err
		}
	}
	raw := l.raw
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	err := raw.SetDeadline(time.Now().Add(l.relay.cfg.Timeout))
	if err == nil {
		err = l.client.SendWithSMTPClient(l.smtp, message)
	}
	if err != nil {
		l.hangUp()
		return err
	}
	l.since = time.NewTimer(keepOpen)
	return nil
}

// unused is told when the line was open for nothing. It is nil when it is closed.
func (l *line) unused() <-chan time.Time {
	if l.since == nil {
		return nil
	}
	return l.since.C
}

// hangUp closes the line.
func (l *line) hangUp() {
	if l.since != nil {
		l.since.Stop()
	}
	if l.raw != nil {
		_ = l.raw.SetDeadline(time.Now().Add(quitPause))
		if l.smtp != nil {
			_ = l.client.CloseWithSMTPClient(l.smtp)
		}
		_ = l.raw.Close()
	}
	*l = line{relay: l.relay}
}

// dial opens the line, up to the point where it takes a letter.
func (l *line) dial(ctx context.Context) error {
	var raw net.Conn
	cut := func() bool { return true }
	client, err := gomail.NewClient(l.relay.cfg.Host, append(l.relay.options(), gomail.WithDialContextFunc(
		func(dialing context.Context, network, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(dialing, network, l.relay.address())
			if err != nil {
				return nil, err
			}
			raw = conn
			// The library looks at a context while it dials, and at deadlines of its own after.
			cut = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return l.relay.secured(dialing, conn)
		}))...)
	if err != nil {
		return err
	}
	connected, err := client.DialToSMTPClientWithContext(ctx)
	cut()
	if err != nil {
		if raw != nil {
			_ = raw.Close() // which the library leaves open
		}
		return fmt.Errorf("connect to %s: %w", l.relay.address(), err)
	}
	l.client, l.smtp, l.raw = client, connected, raw
	return nil
}

func (r relay) address() string { return net.JoinHostPort(r.cfg.Host, strconv.Itoa(r.cfg.Port)) }

// secured does what implicit TLS asks for; STARTTLS is the library's.
func (r relay) secured(ctx context.Context, raw net.Conn) (net.Conn, error) {
	if r.cfg.TLS != tlsImplicit {
		return raw, nil
	}
	secured := tls.Client(raw, r.tls())
	return secured, secured.HandshakeContext(ctx)
}

func (r relay) tls() *tls.Config {
	return &tls.Config{ServerName: r.cfg.Host, MinVersion: tls.VersionTLS12,
		// Opportunistic TLS keeps out those who listen. Whoever could show a certificate
		// of their own could as well make STARTTLS disappear.
		InsecureSkipVerify: r.cfg.TLS == tlsOpportunistic} //nolint:gosec // only where no TLS at all would do too
}

func (r relay) options() []gomail.Option {
	options := []gomail.Option{gomail.WithPort(r.cfg.Port), gomail.WithTimeout(r.cfg.Timeout), gomail.WithTLSConfig(r.tls())}
	switch r.cfg.TLS {
	case tlsStart:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case tlsOpportunistic:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if r.greeting != "" {
		options = append(options, gomail.WithHELO(r.greeting))
	}
	if r.cfg.User == "" {
		return options
	}
	// Validate lets authentication without safe TLS pass towards this machine only.
	methods := []gomail.SMTPAuthType{gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin, gomail.SMTPAuthCramMD5}
	if !r.cfg.secure() {
		methods = []gomail.SMTPAuthType{gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthPlainNoEnc, gomail.SMTPAuthLoginNoEnc, gomail.SMTPAuthCramMD5}
	}
	return append(options, gomail.WithUsername(r.cfg.User), gomail.WithPassword(r.cfg.Password),
		gomail.WithSMTPAuth(gomail.SMTPAuthOpportunistic), gomail.WithOpportunisticSMTPAuth(methods...))
}

// greeting is the name that this service gives itself in EHLO: its host, when that is
// a domain name. Some mail servers refuse others.
func greeting(baseURL string) string {
	base, err := url.Parse(baseURL)
	if err != nil || isAddress(base.Hostname()) || !strings.Contains(base.Hostname(), ".") {
		return ""
	}
	return base.Hostname()
}
