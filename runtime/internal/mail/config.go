package mail

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"strings"
	"time"
	"unicode"
)

// Config says how mail leaves. The tags are flag and environment names.
type Config struct {
	Host     string        `name:"smtp-host" env:"SERVICE_SMTP_HOST" help:"Mail server that takes the login codes. Without it nobody can log in by e-mail."`
	Port     int           `name:"smtp-port" env:"SERVICE_SMTP_PORT" default:"587" help:"Its port."`
	TLS      string        `name:"smtp-tls" env:"SERVICE_SMTP_TLS" enum:"starttls,implicit,opportunistic,none" default:"starttls" help:"starttls: not without STARTTLS and a valid certificate; implicit: TLS from the first byte (port 465); opportunistic: STARTTLS when it is offered, whoever's the certificate; none: in clear."`
	User     string        `name:"smtp-user" env:"SERVICE_SMTP_USER" help:"User name at the mail server; without it there is no authentication. Needs starttls or implicit, unless the mail server is on this machine."`
	Password string        `name:"smtp-password" env:"SERVICE_SMTP_PASSWORD" help:"Its password (prefer the environment over the flag)."`
	From     string        `name:"mail-from" env:"SERVICE_MAIL_FROM" help:"Sender: login@example.org, or Example <login@example.org>. Without a name, SERVICE_BRAND_NAME is the name."`
	Timeout  time.Duration `name:"smtp-timeout" env:"SERVICE_SMTP_TIMEOUT" default:"15s" help:"How long handing over one letter may take, connecting included."`
}

// How the connection to the mail server is protected.
const (
	tlsStart         = "starttls"
	tlsImplicit      = "implicit"
	tlsOpportunistic = "opportunistic"
	tlsNone          = "none"
)

// maxTimeout keeps a letter's lease shorter than its code lives.
const maxTimeout = 2 * time.Minute

// Enabled reports whether there is a mail server.
func (c Config) Enabled() bool { return c.Host != "" }

// Validate checks the settings; those of mail that is off are not looked at.
func (c Config) Validate() error {
	if !c.Enabled() {
		return nil
	}
	if strings.ContainsAny(c.Host, "/@[]") || strings.ContainsFunc(c.Host, unicode.IsSpace) || strings.Contains(c.Host, ":") && !isAddress(c.Host) {
		return fmt.Errorf("SERVICE_SMTP_HOST must be a host name or an address, without a port, not %q", c.Host)
	}
	if c.Port < 1 || c.Port > 65535 {
		return fmt.Errorf("SERVICE_SMTP_PORT must be from 1 to 65535, not %d", c.Port)
	}
	if c.Timeout < time.Second || c.Timeout > maxTimeout {
		return fmt.Errorf("SERVICE_SMTP_TIMEOUT must be from 1s to %s, not %s", maxTimeout, c.Timeout)
	}
	switch c.TLS {
	case tlsStart, tlsImplicit, tlsOpportunistic, tlsNone:
	default:
		return fmt.Errorf("SERVICE_SMTP_TLS must be starttls, implicit, opportunistic or none, not %q", c.TLS)
	}
	switch {
	case c.User == "" && c.Password != "":
		return errors.New("SERVICE_SMTP_PASSWORD is set, but SERVICE_SMTP_USER is not")
	case c.User != "" && c.Password == "":
		return errors.New("SERVICE_SMTP_USER is set, but SERVICE_SMTP_PASSWORD is not")
	case c.User != "" && !c.secure() && !loopback(c.Host):
		return fmt.Errorf("SERVICE_SMTP_USER needs SERVICE_SMTP_TLS starttls or implicit: with %s the password could be read on its way to %s", c.TLS, c.Host)
	}
	_, err := c.sender("")
	return err
}

// secure tells that nobody on the way can read along or stand in for the mail server.
func (c Config) secure() bool { return c.TLS == tlsStart || c.TLS == tlsImplicit }

// sender is From, with a name in any case.
func (c Config) sender(brand string) (*mail.Address, error) {
	if c.From == "" {
		return nil, errors.New("SERVICE_MAIL_FROM must be set when SERVICE_SMTP_HOST is")
	}
	from, err := mail.ParseAddress(c.From)
	if err != nil || !deliverable(from.Address) || strings.ContainsFunc(from.Name, unicode.IsControl) {
		return nil, fmt.Errorf("SERVICE_MAIL_FROM must look like login@example.org or Example <login@example.org>, not %q", c.From)
	}
	if from.Name == "" {
		from.Name = brand
	}
	return from, nil
}

// maxAddress is the longest address of a mailbox, in bytes (RFC 5321, 4.5.3.1.3).
const maxAddress = 254

// deliverable reports whether an address is one, and nothing besides: it ends up in a
// command to the mail server and in a header.
func deliverable(address string) bool {
	if len(address) > maxAddress || strings.ContainsFunc(address, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return false
	}
	parsed, err := mail.ParseAddress(address)
	return err == nil && parsed.Address == address
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// loopback reports whether a mail server is on this machine.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}
