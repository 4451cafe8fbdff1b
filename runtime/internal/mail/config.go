package mail

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"mediastack.dev/runtime/account"
)

// Config describes the mail server and the sender. The tags are flag and environment names.
type Config struct {
	Host     string        `name:"smtp-host" env:"SERVICE_SMTP_HOST" help:"Host name of the SMTP server that delivers login codes. Without it nobody can log in."`
	Port     int           `name:"smtp-port" env:"SERVICE_SMTP_PORT" default:"587" help:"Port of the SMTP server."`
	TLS      string        `name:"smtp-tls" env:"SERVICE_SMTP_TLS" enum:"starttls,implicit,opportunistic,none" default:"starttls" help:"starttls: STARTTLS with a valid certificate; implicit: TLS from the first byte (port 465); opportunistic: STARTTLS if offered, certificate not verified; none: no encryption."`
	User     string        `name:"smtp-user" env:"SERVICE_SMTP_USER" help:"SMTP user name; empty = no authentication. Requires starttls or implicit, unless the SMTP server runs on this machine."`
	Password string        `name:"smtp-password" env:"SERVICE_SMTP_PASSWORD" help:"SMTP password (prefer the environment over the flag)."`
	From     string        `name:"mail-from" env:"SERVICE_MAIL_FROM" help:"Sender address, required with SERVICE_SMTP_HOST: login@example.org, or Example <login@example.org>. The name defaults to SERVICE_BRAND_NAME."`
	Timeout  time.Duration `name:"smtp-timeout" env:"SERVICE_SMTP_TIMEOUT" default:"15s" help:"Maximum time to deliver one e-mail to the SMTP server, including the connection."`
}

// Values of Config.TLS.
const (
	tlsStart         = "starttls"
	tlsImplicit      = "implicit"
	tlsOpportunistic = "opportunistic"
	tlsNone          = "none"
)

// maxTimeout keeps the lease of an e-mail shorter than the lifetime of its code.
const maxTimeout = 2 * time.Minute

// Enabled reports whether an SMTP server is configured.
func (c Config) Enabled() bool { return c.Host != "" }

// Validate checks the settings. It ignores them if mail is not enabled.
func (c Config) Validate() error {
	if !c.Enabled() && c.Port >= 0 && c.Timeout >= 0 {
		return nil
	}
	if strings.ContainsAny(c.Host, "/@[]") || strings.ContainsFunc(c.Host, unicode.IsSpace) || strings.Contains(c.Host, ":") && !isIP(c.Host) {
		return fmt.Errorf("SERVICE_SMTP_HOST must be a host name or an IP address, without a port, not %q", c.Host)
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
	case c.User != "" && !c.authenticatesServer() && !isLoopback(c.Host):
		return fmt.Errorf("SERVICE_SMTP_USER needs SERVICE_SMTP_TLS starttls or implicit: with %s the password could be intercepted on the way to %s", c.TLS, c.Host)
	}
	_, err := c.sender("")
	return err
}

// authenticatesServer reports whether the connection is encrypted and the server's
// certificate verified.
func (c Config) authenticatesServer() bool { return c.TLS == tlsStart || c.TLS == tlsImplicit }

// sender returns the parsed From address. Its name defaults to brand.
func (c Config) sender(brand string) (*mail.Address, error) {
	if c.From == "" {
		return nil, errors.New("SERVICE_MAIL_FROM must be set when SERVICE_SMTP_HOST is")
	}
	invalid := fmt.Errorf("SERVICE_MAIL_FROM must look like login@example.org or Example <login@example.org>, not %q", c.From)
	from, err := mail.ParseAddress(c.From)
	if err != nil || strings.ContainsFunc(from.Name, unicode.IsControl) {
		return nil, invalid
	}
	address, ok := account.ParseEmail(from.Address) // with an international domain in its ASCII form
	if !ok {
		return nil, invalid
	}
	from.Address = address
	if from.Name == "" {
		from.Name = brand
	}
	return from, nil
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// isLoopback reports whether host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}
