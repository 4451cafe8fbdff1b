package mail_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/oauth"
)

var errDown = errors.New("the database is down")

func TestOutbox_DeliversInEveryTLSMode(t *testing.T) {
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
			queue := newQueue(newClock())
			id := queue.put(address)
			outbox := run(t, cfg, queue)
			if !c.sent {
				wait.Until(t, "the e-mail waits for another attempt", func() bool { due, _ := queue.next(id); return due == 5*time.Second })
				if len(server.accepted()) != 0 || outbox.attempts(t, "retry") != 1 {
					t.Errorf("%d accepted, %d to be retried", len(server.accepted()), outbox.attempts(t, "retry"))
				}
				return
			}
			wait.Until(t, "the e-mail is accepted and removed", func() bool { return len(server.accepted()) == 1 && queue.remaining() == 0 })
			if email := server.accepted()[0]; email.tls != c.secure || email.user != c.user {
				t.Errorf("TLS %t as %q, want %t as %q", email.tls, email.user, c.secure, c.user)
			}
		})
	}
}

func TestOutbox_RetriesWithBackoff(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	server := (&server{onRcpt: func(string) error {
		if tries.Add(1) <= 4 {
			return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "Greylisted, ANA.LOPEZ"}
		}
		return nil
	}}).start(t)
	queue := newQueue(newClock())
	id := queue.put(address)
	outbox := run(t, config(server.port), queue)
	for attempt, pause := range []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second, 2 * time.Minute} {
		wait.Until(t, fmt.Sprintf("attempt %d", attempt+1), func() bool {
			wait, attempts := queue.next(id)
			return attempts == attempt+1 && wait == pause
		})
		queue.move(pause - time.Second)
		queue.move(time.Second)
	}
	wait.Until(t, "the e-mail is accepted", func() bool { return len(server.accepted()) == 1 && queue.remaining() == 0 })
	if outbox.attempts(t, "retry") != 4 || outbox.attempts(t, "delivered") != 1 {
		t.Errorf("%d retried, %d sent", outbox.attempts(t, "retry"), outbox.attempts(t, "delivered"))
	}
	if !strings.Contains(outbox.log.String(), "Greylisted") || !strings.Contains(outbox.log.String(), "a***@example.org") {
		t.Errorf("the log does not name the error: %s", outbox.log)
	}
}

func TestOutbox_DropsPermanentlyRejectedEmail(t *testing.T) {
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
			queue := newQueue(newClock())
			queue.put(address)
			outbox := run(t, config(server.port), queue)
			wait.Until(t, "the e-mail is removed, and then the log says so", func() bool {
				return queue.remaining() == 0 && strings.Contains(outbox.log.String(), "email dropped")
			})
			if outbox.attempts(t, "rejected") != 1 || outbox.attempts(t, "delivered") != 0 || len(server.accepted()) != 0 {
				t.Error("a rejected e-mail counts as something else")
			}
			if log := outbox.log.String(); !strings.Contains(log, "email dropped") || !strings.Contains(log, "a***@example.org") {
				t.Errorf("the log does not say so: %s", log)
			}
		})
	}
}

func TestOutbox_RetriesWhenSenderIsRejected(t *testing.T) {
	t.Parallel()
	var right atomic.Bool
	server := (&server{onMail: func() error {
		if !right.Load() {
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "sender not verified"}
		}
		return nil
	}}).start(t)
	queue := newQueue(newClock())
	id := queue.put(address)
	run(t, config(server.port), queue)
	wait.Until(t, "the e-mail waits", func() bool { due, _ := queue.next(id); return due == 5*time.Second })
	right.Store(true)
	queue.move(5 * time.Second)
	wait.Until(t, "the e-mail is accepted", func() bool { return len(server.accepted()) == 1 && queue.remaining() == 0 })
}

func TestOutbox_RejectsInvalidRecipients(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	queue := newQueue(newClock())
	hostile := []string{
		"ana.lopez@example.org\r\nBcc: x@example.org", "ana.lopez@example.org\nBcc: x@example.org", "ana.lopez@example.org>\r\nRCPT TO:<x@example.org",
		"ana.lopez@example.org, x@example.org", "Ana <ana.lopez@example.org>", "ana.lopez@example.org\x00", "", "@", "ana.lopez",
		"ana.lopez@" + strings.Repeat("long.", 60) + "org", "ana.lopez@example.org\u2028x",
	}
	for _, to := range hostile {
		queue.put(to)
	}
	outbox := run(t, config(server.port), queue)
	wait.Until(t, "all are given up", func() bool { return queue.remaining() == 0 })
	if len(server.accepted()) != 0 || outbox.attempts(t, "rejected") != len(hostile) {
		t.Errorf("%d accepted, %d of %d rejected", len(server.accepted()), outbox.attempts(t, "rejected"), len(hostile))
	}
}

// mute starts a server that accepts connections and never writes.
func mute(t *testing.T) (port int, connected *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

func TestOutbox_TimesOutOnHangingServer(t *testing.T) {
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
			queue := newQueue(newClock())
			var ids []int64
			for range 8 { // more than are sent at once
				ids = append(ids, queue.put(address))
			}
			outbox := run(t, cfg, queue)
			wait.Until(t, "all wait for another attempt", func() bool {
				for _, id := range ids {
					if due, _ := queue.next(id); due != 5*time.Second {
						return false
					}
				}
				return true
			})
			if outbox.attempts(t, "retry") != 8 {
				t.Errorf("%d retried", outbox.attempts(t, "retry"))
			}
		})
	}
}

func TestOutbox_ReconnectsAfterServerRestart(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	queue := newQueue(newClock())
	queue.put(address)
	outbox := run(t, config(server.port), queue)
	wait.Until(t, "the first e-mail is accepted", func() bool { return len(server.accepted()) == 1 && queue.remaining() == 0 })
	server.stop()
	id := queue.put(address)
	wait.Until(t, "the second waits", func() bool { due, _ := queue.next(id); return due == 5*time.Second })
	server.start(t)
	queue.move(5 * time.Second)
	wait.Until(t, "the second is accepted", func() bool { return len(server.accepted()) == 2 && queue.remaining() == 0 })
	if outbox.attempts(t, "retry") != 1 || outbox.attempts(t, "delivered") != 2 {
		t.Errorf("%d retried, %d sent", outbox.attempts(t, "retry"), outbox.attempts(t, "delivered"))
	}
}

func TestOutbox_ReusesAndReplacesConnections(t *testing.T) {
	t.Parallel()
	var mails atomic.Int32
	server := (&server{onMail: func() error {
		if mails.Add(1)%10 == 0 { // enough for one connection
			return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "too many messages"}
		}
		return nil
	}}).start(t)
	queue := newQueue(newClock())
	for range 60 {
		queue.put(address)
	}
	outbox := run(t, config(server.port), queue)
	wait.Until(t, "all are taken", func() bool {
		queue.clock.move(100 * time.Millisecond) // an e-mail that was rejected on both connections waits for a while
		return len(server.accepted()) == 60 && queue.remaining() == 0
	})
	// 60 e-mails and every tenth rejected MAIL make six or seven more connections than senders.
	if lines := server.connections(); lines > 20 {
		t.Errorf("60 e-mails took %d connections", lines)
	}
	// An e-mail is tried on a new connection at once, unless that one is rejected as well.
	if outbox.attempts(t, "delivered") != 60 {
		t.Errorf("%d sent, %d retried", outbox.attempts(t, "delivered"), outbox.attempts(t, "retry"))
	}
}

func TestOutbox_DoesNotResendAcceptedEmailAfterConnectionLoss(t *testing.T) {
	t.Parallel()
	server := (&server{onReset: func(conn *smtp.Conn) { _ = conn.Conn().Close() }}).start(t)
	queue := newQueue(newClock())
	queue.put(address)
	outbox := run(t, config(server.port), queue)
	wait.Until(t, "the e-mail is removed", func() bool { return queue.remaining() == 0 })
	if len(server.accepted()) != 1 || outbox.attempts(t, "delivered") != 1 || outbox.attempts(t, "retry") != 0 {
		t.Errorf("%d accepted, %d sent, %d retried", len(server.accepted()), outbox.attempts(t, "delivered"), outbox.attempts(t, "retry"))
	}
}

func TestOutbox_DropsEmailWhoseCodeExpires(t *testing.T) {
	t.Parallel()
	server := (&server{onRcpt: func(string) error { return &smtp.SMTPError{Code: 451, Message: "later"} }}).start(t)
	queue := newQueue(newClock())
	late := queue.put(address)
	queue.clock.move(10*time.Minute - 3*time.Second) // the next attempt would be too late
	outbox := run(t, config(server.port), queue)
	wait.Until(t, "the e-mail is removed", func() bool { return queue.remaining() == 0 })
	if outbox.attempts(t, "expired") != 1 || server.connections() != 1 {
		t.Errorf("e-mail %d: %d expired, after %d connections", late, outbox.attempts(t, "expired"), server.connections())
	}

	queue.mu.Lock()
	queue.rows[2] = &row{email: oauth.LoginEmail{ID: 2, To: address, Code: code, ExpiresAt: queue.clock.Now()}}
	queue.mu.Unlock()
	queue.notify()
	wait.Until(t, "the expired e-mail is removed", func() bool { return queue.remaining() == 0 && outbox.attempts(t, "expired") == 2 })
}

func TestOutbox_TwoReplicasDeliverEachEmailOnce(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	queue := newQueue(newClock())
	first, second := run(t, config(server.port), queue), run(t, config(server.port), queue)
	const emails = 100
	for n := range emails {
		queue.put(fmt.Sprintf("person%d@example.org", n))
	}
	wait.Until(t, "all are taken", func() bool { return len(server.accepted()) >= emails && queue.remaining() == 0 })
	to := map[string]int{}
	for _, accepted := range server.accepted() {
		to[accepted.to]++
	}
	if len(to) != emails || len(server.accepted()) != emails || first.attempts(t, "delivered")+second.attempts(t, "delivered") != emails {
		t.Errorf("%d e-mails to %d people", len(server.accepted()), len(to))
	}
}

// A replica finds e-mails that others queued, and retries that are due, without a notification.
func TestOutbox_PollsTheQueue(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	queue := newQueue(newClock())
	run(t, config(server.port), queue)
	wait.Until(t, "the queue was asked and is empty", func() bool { queue.mu.Lock(); defer queue.mu.Unlock(); return queue.claims > 0 })
	queue.putWithoutNotify(address)
	wait.Until(t, "the e-mail is accepted", func() bool { return len(server.accepted()) == 1 && queue.remaining() == 0 })
}

func TestOutbox_RetriesFailingQueue(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	queue := newQueue(newClock())
	queue.fail(errDown, nil)
	queue.put(address)
	outbox := run(t, config(server.port), queue)
	wait.Until(t, "the failure is logged", func() bool { return strings.Contains(outbox.log.String(), "leasing e-mails failed") })
	queue.fail(nil, nil)
	wait.Until(t, "the e-mail is accepted", func() bool { return len(server.accepted()) == 1 && queue.remaining() == 0 })
	if strings.Count(outbox.log.String(), "leasing e-mails failed") != 1 {
		t.Errorf("one failure is logged more than once: %s", outbox.log)
	}
}

func TestRun_FinishesDeliveryInProgressOnShutdown(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	server := (&server{onData: func() error { close(arrived); <-release; return nil }}).start(t)
	queue := newQueue(newClock())
	queue.put(address)
	outbox := run(t, config(server.port), queue)
	<-arrived
	ending := make(chan struct{})
	go func() { defer close(ending); outbox.stop() }()
	close(release)
	<-ending
	if len(server.accepted()) != 1 || queue.remaining() != 0 || outbox.attempts(t, "delivered") != 1 {
		t.Errorf("%d accepted, %d left", len(server.accepted()), queue.remaining())
	}
}

func TestRun_ShutdownLosesNoEmail(t *testing.T) {
	t.Parallel()
	for name, nackErr := range map[string]error{"the queue is notified": nil, "the queue is not": errDown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, connected := mute(t)
			queue := newQueue(newClock())
			queue.fail(nil, nackErr)
			id := queue.put(address)
			outbox := run(t, config(silent), queue)
			wait.Until(t, "the e-mail is on its way", func() bool { return connected.Load() == 1 })
			outbox.stop()
			due, _ := queue.next(id)
			if queue.remaining() != 1 || nackErr == nil && due != 0 || nackErr != nil && due <= 0 {
				t.Fatalf("%d e-mails left, due in %s", queue.remaining(), due)
			}
			queue.fail(nil, nil)

			server := (&server{}).start(t)
			run(t, config(server.port), queue)
			if nackErr != nil {
				wait.Until(t, "the other replica has asked", func() bool { queue.mu.Lock(); defer queue.mu.Unlock(); return queue.claims >= 2 })
				if len(server.accepted()) != 0 {
					t.Error("the e-mail was sent within its lease")
				}
				queue.move(due)
			}
			wait.Until(t, "another replica sends it", func() bool { return len(server.accepted()) == 1 && queue.remaining() == 0 })
		})
	}
}

func TestRun_DisabledMailLeavesQueueUntouched(t *testing.T) {
	t.Parallel()
	queue := newQueue(newClock())
	queue.put(address)
	outbox := run(t, mail.Config{}, queue)
	outbox.stop()
	if queue.claims != 0 || queue.remaining() != 1 {
		t.Errorf("%d claims, %d e-mails left", queue.claims, queue.remaining())
	}
}

func TestNewOutbox_RejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	queue, log := newQueue(newClock()), slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		change func(*mail.Config)
		base   string
	}{
		"a wrong port":     {func(c *mail.Config) { c.Port = 0 }, "https://media.example.org"},
		"a wrong base URL": {func(*mail.Config) {}, "media"},
	} {
		cfg := config(25)
		c.change(&cfg)
		if _, err := mail.NewOutbox(cfg, "Media", c.base, queue, prometheus.NewRegistry(), time.Now, log); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	registry := prometheus.NewRegistry()
	var once sync.Once
	for range 2 {
		_, err := mail.NewOutbox(config(25), "Media", "https://media.example.org", queue, registry, time.Now, log)
		once.Do(func() {
			if err != nil {
				t.Error(err)
			}
			err = errDown
		})
		if err == nil {
			t.Error("a second one registers the same metric")
		}
	}
}
