package mail_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/mail"
)

func TestConfig_IsDisabledWithoutHost(t *testing.T) {
	t.Parallel()
	if cfg := (mail.Config{TLS: "bogus", From: "bogus"}); cfg.Enabled() || cfg.Validate() != nil {
		t.Errorf("settings of mail that is off matter: %v", cfg.Validate())
	}
}

func TestValidate_NamesTheInvalidSetting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*mail.Config)
		want   string // empty = fine
	}{
		"as it should be":             {func(*mail.Config) {}, ""},
		"a sender with a name":        {func(c *mail.Config) { c.From = "Media <login@media.example>" }, ""},
		"an IPv6 address":             {func(c *mail.Config) { c.Host = "2001:db8::25" }, ""},
		"authentication over TLS":     {func(c *mail.Config) { c.User, c.Password = "u", "secret" }, ""},
		"authentication, implicit":    {func(c *mail.Config) { c.User, c.Password, c.TLS = "u", "secret", "implicit" }, ""},
		"in clear on this machine":    {func(c *mail.Config) { c.User, c.Password, c.TLS, c.Host = "u", "secret", "none", "127.0.0.1" }, ""},
		"in clear on localhost":       {func(c *mail.Config) { c.User, c.Password, c.TLS, c.Host = "u", "secret", "none", "localhost" }, ""},
		"in clear elsewhere":          {func(c *mail.Config) { c.User, c.Password, c.TLS = "u", "secret", "none" }, "SERVICE_SMTP_USER"},
		"opportunistic TLS elsewhere": {func(c *mail.Config) { c.User, c.Password, c.TLS = "u", "secret", "opportunistic" }, "SERVICE_SMTP_USER"},
		"a name like localhost": {func(c *mail.Config) {
			c.User, c.Password, c.TLS, c.Host = "u", "secret", "none", "localhost.example.org"
		}, "SERVICE_SMTP_USER"},
		"a user without password":   {func(c *mail.Config) { c.User = "u" }, "SERVICE_SMTP_PASSWORD"},
		"a password without user":   {func(c *mail.Config) { c.Password = "secret" }, "SERVICE_SMTP_USER"},
		"a host with a port":        {func(c *mail.Config) { c.Host = "mail.example.org:25" }, "SERVICE_SMTP_HOST"},
		"a URL":                     {func(c *mail.Config) { c.Host = "smtp://mail.example.org" }, "SERVICE_SMTP_HOST"},
		"no port":                   {func(c *mail.Config) { c.Port = 0 }, "SERVICE_SMTP_PORT"},
		"a port too high":           {func(c *mail.Config) { c.Port = 65536 }, "SERVICE_SMTP_PORT"},
		"unknown TLS":               {func(c *mail.Config) { c.TLS = "ssl" }, "SERVICE_SMTP_TLS"},
		"no time":                   {func(c *mail.Config) { c.Timeout = 0 }, "SERVICE_SMTP_TIMEOUT"},
		"too much time":             {func(c *mail.Config) { c.Timeout = time.Hour }, "SERVICE_SMTP_TIMEOUT"},
		"no sender":                 {func(c *mail.Config) { c.From = "" }, "SERVICE_MAIL_FROM"},
		"a sender that is none":     {func(c *mail.Config) { c.From = "media.example" }, "SERVICE_MAIL_FROM"},
		"two senders":               {func(c *mail.Config) { c.From = "a@media.example, b@media.example" }, "SERVICE_MAIL_FROM"},
		"a sender without a domain": {func(c *mail.Config) { c.From = "login@localhost" }, "SERVICE_MAIL_FROM"},
		"a sender with a header":    {func(c *mail.Config) { c.From = "a@media.example\r\nBcc: b@media.example" }, "SERVICE_MAIL_FROM"},
		"a sender's name with one":  {func(c *mail.Config) { c.From = "\"a\r\nBcc: b\" <a@media.example>" }, "SERVICE_MAIL_FROM"},
	} {
		cfg := mail.Config{Host: "mail.example.org", Port: 587, TLS: "starttls", From: "login@media.example", Timeout: 15 * time.Second}
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in %q", name, err)
		}
	}
}
