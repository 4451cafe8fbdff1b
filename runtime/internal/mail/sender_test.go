package mail_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/work"
)

var errDown = errors.New("the database is down")

func TestSender_DeliversInEveryTLSMode(t *testing.T) {
	t.Parallel()
	untrusted := newCertificate()
	for name, c := range map[string]struct {
		server *server
		tls    string
		user   string
		sent   bool // false = not delivered at all, not even unencrypted
		secure bool
	}{
		"STARTTLS":                                 {server: &server{certificate: &trusted}, tls: "starttls", sent: true, secure: true},
		"STARTTLS with authentication":             {server: &server{certificate: &trusted, user: "media"}, tls: "starttls", user: "media", sent: true, secure: true},
		"STARTTLS with an unknown certificate":     {server: &server{certificate: &untrusted}, tls: "starttls"},
		"STARTTLS that is not offered":             {server: &server{}, tls: "starttls"},
		"implicit TLS":                             {server: &server{certificate: &trusted, implicit: true}, tls: "implicit", sent: true, secure: true},
		"implicit TLS with authentication":         {server: &server{certificate: &trusted, implicit: true, user: "media"}, tls: "implicit", user: "media", sent: true, secure: true},
		"implicit TLS with an unknown certificate": {server: &server{certificate: &untrusted, implicit: true}, tls: "implicit"},
		"opportunistic TLS":                        {server: &server{certificate: &untrusted}, tls: "opportunistic", sent: true, secure: true},
		"opportunistic TLS that is not offered":    {server: &server{}, tls: "opportunistic", sent: true},
		"no TLS though it is offered":              {server: &server{certificate: &trusted}, tls: "none", sent: true},
		"no TLS, authentication on this machine":   {server: &server{user: "media"}, tls: "none", user: "media", sent: true},
		"authentication that fails":                {server: &server{certificate: &trusted, user: "another user"}, tls: "starttls", user: "media"},
		"authentication that is not offered":       {server: &server{certificate: &trusted}, tls: "starttls", user: "media"},
		"authentication that is wanted":            {server: &server{certificate: &trusted, user: "media"}, tls: "starttls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := c.server.start(t)
			cfg := config(server.port)
			if cfg.TLS, cfg.User = c.tls, c.user; c.user != "" {
				cfg.Password = "right"
			}
			err := newSender(t, cfg).send(t, newTask(t, address))
			if !c.sent {
				if err == nil || isDiscarded(err) || len(server.accepted()) != 0 {
					t.Errorf("%v, %d accepted: the e-mail is to be tried again", err, len(server.accepted()))
				}
				return
			}
			if err != nil || len(server.accepted()) != 1 {
				t.Fatalf("%v, %d accepted", err, len(server.accepted()))
			}
			if email := server.accepted()[0]; email.tls != c.secure || email.user != c.user {
				t.Errorf("TLS %t as %q, want %t as %q", email.tls, email.user, c.secure, c.user)
			}
		})
	}
}

func TestSender_FailsWithTheReason(t *testing.T) {
	t.Parallel()
	server := (&server{onRcpt: func(string) error {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "Greylisted, ANA.LOPEZ"}
	}}).start(t)
	err := newSender(t, config(server.port)).send(t, newTask(t, address))
	if err == nil || isDiscarded(err) || !strings.Contains(err.Error(), "Greylisted") || !strings.Contains(err.Error(), "a***@example.org") {
		t.Errorf("the error is %v", err)
	}
}

func TestSender_DiscardsPermanentlyRejectedEmail(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*server{
		"an unknown recipient": {onRcpt: func(to string) error {
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "<" + strings.ToUpper(to) + ">: no ana.lopez here"}
		}},
		"contents that are rejected": {onData: func() error {
			return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "spam: " + code + " is a code"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server.start(t)
			err := newSender(t, config(server.port)).send(t, newTask(t, address))
			if !isDiscarded(err) || len(server.accepted()) != 0 || !strings.Contains(err.Error(), "a***@example.org") {
				t.Errorf("%v, %d accepted", err, len(server.accepted()))
			}
		})
	}
}

// An administrator can repair what the server has against the sender.
func TestSender_FailsWhenSenderIsRejected(t *testing.T) {
	t.Parallel()
	server := (&server{onMail: func() error {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "sender not verified"}
	}}).start(t)
	if err := newSender(t, config(server.port)).send(t, newTask(t, address)); err == nil || isDiscarded(err) {
		t.Errorf("the e-mail is not tried again: %v", err)
	}
}

func TestSender_DiscardsInvalidRecipients(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	sending := newSender(t, config(server.port))
	hostile := []string{
		"ana.lopez@example.org\r\nBcc: x@example.org", "ana.lopez@example.org\nBcc: x@example.org", "ana.lopez@example.org>\r\nRCPT TO:<x@example.org",
		"ana.lopez@example.org, x@example.org", "Ana <ana.lopez@example.org>", "ana.lopez@example.org\x00", "", "@", "ana.lopez",
		"ana.lopez@" + strings.Repeat("long.", 60) + "org", "ana.lopez@example.org\u2028x",
	}
	for _, to := range hostile {
		if err := sending.send(t, newTask(t, to)); !isDiscarded(err) {
			t.Errorf("%q: %v", to, err)
		}
	}
	if len(server.accepted()) != 0 {
		t.Errorf("%d accepted", len(server.accepted()))
	}
}

// An e-mail that is not wanted is done; one that cannot be opened is tried again.
func TestSender_AsksWhetherAnEmailIsWanted(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	if err := newSender(t, config(server.port)).send(t, work.Task{}); err != nil {
		t.Errorf("an e-mail that is not wanted: %v", err)
	}
	sending, err := mail.NewSender(config(server.port), "Media", "https://media.example.org", emails{err: errDown}, time.Now, slog.New(slog.DiscardHandler))
	must(t, err)
	if err := sending.Work(t.Context(), newTask(t, address)); !errors.Is(err, errDown) {
		t.Errorf("an e-mail that cannot be opened: %v", err)
	}
	if server.connections() != 0 {
		t.Errorf("%d connections", server.connections())
	}
}

// mute starts a server that accepts connections and never writes.
func mute(t *testing.T) (port int, connected *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	connected = new(atomic.Int32)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected.Add(1)
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, connected
}

func TestSender_TimesOutOnHangingServer(t *testing.T) {
	t.Parallel()
	silent, _ := mute(t)
	release := make(chan struct{})
	hanging := (&server{onData: func() error { <-release; return errors.New("too late") }}).start(t)
	t.Cleanup(func() { close(release) })
	for name, cfg := range map[string]mail.Config{
		"before the greeting":           config(silent),
		"before the greeting, with TLS": func() mail.Config { c := config(silent); c.TLS = "implicit"; return c }(),
		"after the e-mail":              config(hanging.port),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Timeout = time.Second
			if err := newSender(t, cfg).send(t, newTask(t, address)); err == nil || isDiscarded(err) {
				t.Errorf("the e-mail is not tried again: %v", err)
			}
		})
	}
}

// The end of the context, as at a shutdown, ends an attempt at a server that does not respond.
func TestSender_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	silent, connected := mute(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	sending, task := newSender(t, config(silent)), newTask(t, address)
	go func() { failed <- sending.Work(ctx, task) }()
	wait.Until(t, "the e-mail is on its way", func() bool { return connected.Load() == 1 })
	cancel()
	if err := <-failed; err == nil || isDiscarded(err) {
		t.Errorf("the e-mail is not tried again: %v", err)
	}
}

func TestSender_ReconnectsAfterServerRestart(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	sending := newSender(t, config(server.port))
	must(t, sending.send(t, newTask(t, address)))
	server.stop()
	second := newTask(t, address)
	if err := sending.send(t, second); err == nil || isDiscarded(err) {
		t.Fatalf("without a server: %v", err)
	}
	server.start(t)
	if err := sending.send(t, second); err != nil || len(server.accepted()) != 2 {
		t.Errorf("%v, %d accepted", err, len(server.accepted()))
	}
}

func TestSender_ReusesAndReplacesConnections(t *testing.T) {
	t.Parallel()
	var mails atomic.Int32
	server := (&server{onMail: func() error {
		if mails.Add(1)%10 == 0 { // enough for one connection
			return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "too many messages"}
		}
		return nil
	}}).start(t)
	sending := newSender(t, config(server.port))
	var senders sync.WaitGroup
	for range 4 {
		var tasks []work.Task
		for range 15 {
			tasks = append(tasks, newTask(t, address))
		}
		senders.Go(func() {
			for _, task := range tasks {
				// An e-mail is tried on a new connection at once, unless that one is rejected as well.
				for sending.send(t, task) != nil {
				}
			}
		})
	}
	senders.Wait()
	// 60 e-mails and every tenth rejected MAIL make six or seven more connections than senders.
	if lines := server.connections(); len(server.accepted()) != 60 || lines > 20 {
		t.Errorf("%d of 60 e-mails took %d connections", len(server.accepted()), lines)
	}
}

func TestSender_DoesNotResendAcceptedEmailAfterConnectionLoss(t *testing.T) {
	t.Parallel()
	server := (&server{onReset: func(conn *smtp.Conn) { _ = conn.Conn().Close() }}).start(t)
	if err := newSender(t, config(server.port)).send(t, newTask(t, address)); err != nil || len(server.accepted()) != 1 {
		t.Errorf("%v, %d accepted", err, len(server.accepted()))
	}
}

func TestNewSender_RejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*mail.Config)
		base   string
	}{
		"a wrong port":     {func(c *mail.Config) { c.Port = 0 }, "https://media.example.org"},
		"a wrong base URL": {func(*mail.Config) {}, "media"},
	} {
		cfg := config(25)
		c.change(&cfg)
		if _, err := mail.NewSender(cfg, "Media", c.base, emails{}, time.Now, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
