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

// quitTimeout bounds the SMTP QUIT command.
const quitTimeout = time.Second

// relay is the SMTP server that accepts the e-mails.
type relay struct {
	cfg      Config
	heloName string // name in EHLO; empty = the host name of this machine
}

// smtpConn is a connection to the SMTP server that is opened on demand and reused. It is
// not safe for concurrent use.
type smtpConn struct {
	relay  relay
	client *gomail.Client
	smtp   *smtp.Client
	raw    net.Conn
}

// send delivers one message. It retries once on a new connection if the reused one turns
// out to be closed by the server.
func (c *smtpConn) send(ctx context.Context, message *gomail.Msg) error {
	used := c.smtp != nil
	err := c.trySend(ctx, message)
	if used && isStaleConn(err) && !message.IsDelivered() && ctx.Err() == nil {
		err = c.trySend(ctx, message)
	}
	return err
}

// trySend delivers one message over the open connection, or opens one. It closes the
// connection on an error.
func (c *smtpConn) trySend(ctx context.Context, message *gomail.Msg) error {
	if c.smtp == nil {
		if err := c.dial(ctx); err != nil {
			return err
		}
	}
	raw := c.raw
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	err := raw.SetDeadline(time.Now().Add(c.relay.cfg.Timeout))
	if err == nil {
		err = c.client.SendWithSMTPClient(c.smtp, message)
	}
	if err != nil {
		c.close()
	}
	return err
}

// close ends the SMTP session and closes the connection.
func (c *smtpConn) close() {
	if c.raw != nil {
		_ = c.raw.SetDeadline(time.Now().Add(quitTimeout))
		if c.smtp != nil {
			_ = c.client.CloseWithSMTPClient(c.smtp)
		}
		_ = c.raw.Close()
	}
	*c = smtpConn{relay: c.relay}
}

// dial opens a connection and completes the handshake: EHLO, STARTTLS and authentication.
func (c *smtpConn) dial(ctx context.Context) error {
	var raw net.Conn
	cut := func() bool { return true }
	client, err := gomail.NewClient(c.relay.cfg.Host, append(c.relay.options(), gomail.WithDialContextFunc(
		func(dialing context.Context, network, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(dialing, network, c.relay.addr())
			if err != nil {
				return nil, err
			}
			raw = conn
			// The library observes the context only while it dials.
			cut = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return c.relay.handshakeTLS(dialing, conn)
		}))...)
	if err != nil {
		return err
	}
	connected, err := client.DialToSMTPClientWithContext(ctx)
	cut()
	if err != nil {
		if raw != nil {
			_ = raw.Close() // the library leaves it open
		}
		return fmt.Errorf("connect to %s: %w", c.relay.addr(), err)
	}
	c.client, c.smtp, c.raw = client, connected, raw
	return nil
}

func (r relay) addr() string { return net.JoinHostPort(r.cfg.Host, strconv.Itoa(r.cfg.Port)) }

// handshakeTLS starts implicit TLS if it is configured. The library handles STARTTLS.
func (r relay) handshakeTLS(ctx context.Context, raw net.Conn) (net.Conn, error) {
	if r.cfg.TLS != tlsImplicit {
		return raw, nil
	}
	secured := tls.Client(raw, r.tlsConfig())
	return secured, secured.HandshakeContext(ctx)
}

func (r relay) tlsConfig() *tls.Config {
	return &tls.Config{ServerName: r.cfg.Host, MinVersion: tls.VersionTLS12,
		// Opportunistic TLS protects against passive attackers only: an active one could
		// suppress STARTTLS instead of presenting another certificate.
		InsecureSkipVerify: r.cfg.TLS == tlsOpportunistic} //nolint:gosec // the mode accepts unencrypted connections as well
}

func (r relay) options() []gomail.Option {
	options := []gomail.Option{gomail.WithPort(r.cfg.Port), gomail.WithTimeout(r.cfg.Timeout), gomail.WithTLSConfig(r.tlsConfig())}
	switch r.cfg.TLS {
	case tlsStart:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case tlsOpportunistic:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if r.heloName != "" {
		options = append(options, gomail.WithHELO(r.heloName))
	}
	if r.cfg.User == "" {
		return options
	}
	// Validate permits authentication without verified TLS on the loopback interface only.
	methods := []gomail.SMTPAuthType{gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin, gomail.SMTPAuthCramMD5}
	if !r.cfg.authenticatesServer() {
		methods = []gomail.SMTPAuthType{gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthPlainNoEnc, gomail.SMTPAuthLoginNoEnc, gomail.SMTPAuthCramMD5}
	}
	return append(options, gomail.WithUsername(r.cfg.User), gomail.WithPassword(r.cfg.Password),
		gomail.WithSMTPAuth(gomail.SMTPAuthOpportunistic), gomail.WithOpportunisticSMTPAuth(methods...))
}

// heloName returns the name for EHLO: the host of the base URL if it is a domain name, else
// an empty string. Some mail servers reject other names.
func heloName(baseURL string) string {
	base, err := url.Parse(baseURL)
	if err != nil || isIP(base.Hostname()) || !strings.Contains(base.Hostname(), ".") {
		return ""
	}
	return base.Hostname()
}
