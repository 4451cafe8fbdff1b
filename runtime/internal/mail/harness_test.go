package mail_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/oauth"
)

const (
	address = "ana.lopez@example.org"
	code    = "428163"
)

// trusted is a certificate that this process trusts through SSL_CERT_FILE, as an operator
// configures a private authority.
var trusted = newCertificate()

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "mail")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "roots.pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.Certificate[0]}), 0o600); err != nil {
			panic(err)
		}
		if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

func newCertificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// acceptedEmail is an e-mail that the SMTP server accepted.
type acceptedEmail struct {
	from, to string
	tls      bool
	user     string
	data     string
}

// server is an SMTP server on a real port. Its hooks, if set, decide about each command.
type server struct {
	port        int
	implicit    bool
	certificate *tls.Certificate // nil = no TLS
	user        string           // not empty = authentication is required
	onMail      func() error
	onRcpt      func(to string) error
	onData      func() error // before the data is answered
	onReset     func(*smtp.Conn)

	mu       sync.Mutex
	emails   []acceptedEmail
	sessions int
	stop     func()
}

// start serves on the port, or on a free one for 0.
func (s *server) start(t *testing.T) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(s.port))
	if err != nil {
		t.Fatal(err)
	}
	s.port = listener.Addr().(*net.TCPAddr).Port
	serving := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessions++
		return &session{server: s, conn: c}, nil
	}))
	serving.Domain = "mail.test"
	serving.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	serving.AllowInsecureAuth = true
	if s.certificate != nil {
		config := &tls.Config{Certificates: []tls.Certificate{*s.certificate}}
		if s.implicit {
			listener = tls.NewListener(listener, config)
		} else {
			serving.TLSConfig = config
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = serving.Serve(listener)
	}()
	s.stop = func() {
		_ = serving.Close()
		<-ended
	}
	t.Cleanup(s.stop)
	return s
}

func (s *server) accepted() []acceptedEmail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]acceptedEmail(nil), s.emails...)
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

type session struct {
	server *server
	conn   *smtp.Conn
	email  acceptedEmail
	user   string
}

func (s *session) AuthMechanisms() []string {
	if s.server.user == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.user || password != "right" {
			return smtp.ErrAuthFailed
		}
		s.user = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.user != "" && s.user == "" {
		return smtp.ErrAuthRequired
	}
	if s.server.onMail != nil {
		if err := s.server.onMail(); err != nil {
			return err
		}
	}
	_, secured := s.conn.TLSConnectionState()
	s.email = acceptedEmail{from: from, tls: secured, user: s.user}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.email.to = to
	if s.server.onRcpt != nil {
		return s.server.onRcpt(to)
	}
	return nil
}

func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.server.onData != nil {
		if err := s.server.onData(); err != nil {
			return err
		}
	}
	s.email.data = string(data)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.emails = append(s.server.emails, s.email)
	return nil
}

func (s *session) Reset() {
	if s.server.onReset != nil && s.email.data != "" {
		s.server.onReset(s.conn)
	}
	s.email = acceptedEmail{}
}

func (s *session) Logout() error { return nil }

// clock is advanced by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 14, 5, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// queue is an in-memory mail.Queue with the semantics of the one in PostgreSQL.
type queue struct {
	clock       *clock
	emailQueued chan struct{}

	mu     sync.Mutex
	rows   map[int64]*row
	claims int
	// err is returned by all methods while it is set.
	err error
	// ackErr is returned by AckEmail and NackEmail while it is set.
	ackErr error
}

type row struct {
	email oauth.LoginEmail
	due   time.Time
}

func newQueue(clock *clock) *queue {
	return &queue{clock: clock, emailQueued: make(chan struct{}, 1), rows: map[int64]*row{}}
}

// put queues an e-mail that expires in 10 minutes and returns its id.
func (q *queue) put(to string) int64 {
	defer q.notify()
	return q.putWithoutNotify(to)
}

// putWithoutNotify queues an e-mail as another replica would: without a notification.
func (q *queue) putWithoutNotify(to string) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	id := int64(len(q.rows) + 1)
	q.rows[id] = &row{due: q.clock.Now(), email: oauth.LoginEmail{ID: id, To: to, Code: code, ExpiresAt: q.clock.Now().Add(10 * time.Minute)}}
	return id
}

func (q *queue) notify() {
	select {
	case q.emailQueued <- struct{}{}:
	default:
	}
}

// move advances the clock and notifies the outbox.
func (q *queue) move(by time.Duration) {
	q.clock.move(by)
	q.notify()
}

// fail sets the errors that the methods return from now on.
func (q *queue) fail(err, ackErr error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err, q.ackErr = err, ackErr
}

func (q *queue) remaining() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := 0
	for _, row := range q.rows {
		if row != nil {
			left++
		}
	}
	return left
}

// next returns the time until an e-mail is due, and how often it was leased.
func (q *queue) next(id int64) (wait time.Duration, attempts int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rows[id] == nil {
		return 0, 0
	}
	return q.rows[id].due.Sub(q.clock.Now()), q.rows[id].email.Attempts
}

func (q *queue) LeaseEmails(_ context.Context, limit int, lease time.Duration) ([]oauth.LoginEmail, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims++
	if q.err != nil {
		return nil, q.err
	}
	now := q.clock.Now()
	var emails []oauth.LoginEmail
	for id := int64(1); id <= int64(len(q.rows)) && len(emails) < limit; id++ {
		if row := q.rows[id]; row != nil && !now.Before(row.due) {
			row.due = now.Add(lease)
			row.email.Attempts++
			emails = append(emails, row.email)
		}
	}
	return emails, nil
}

func (q *queue) AckEmail(_ context.Context, id int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := errors.Join(q.err, q.ackErr); err != nil {
		return err
	}
	q.rows[id] = nil
	return nil
}

func (q *queue) NackEmail(_ context.Context, id int64, at time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := errors.Join(q.err, q.ackErr); err != nil {
		return err
	}
	q.rows[id].due = at
	return nil
}

func (q *queue) EmailQueued() <-chan struct{} { return q.emailQueued }

// buffer is a bytes.Buffer that is safe for concurrent use.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// runningOutbox is an outbox whose Run is in progress.
type runningOutbox struct {
	log      *buffer
	registry *prometheus.Registry
	stop     func() // ends Run and waits for it
}

// config is for an SMTP server without TLS, with the largest timeout: a test that is about it sets its own.
func config(port int) mail.Config {
	return mail.Config{Host: "127.0.0.1", Port: port, TLS: "none", From: "login@media.example", Timeout: 2 * time.Minute}
}

// run starts an outbox. When it stops, run checks that its log contains neither the address
// nor the code.
func run(t *testing.T, cfg mail.Config, queue *queue) *runningOutbox {
	t.Helper()
	r := &runningOutbox{log: &buffer{}, registry: prometheus.NewRegistry()}
	outbox, err := mail.NewOutbox(cfg, "Müller & Söhne", "https://media.example.org", queue, r.registry, queue.clock.Now,
		slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- outbox.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
		for _, secret := range []string{address, "ana.lopez", "ANA.LOPEZ", code, "right"} {
			if strings.Contains(r.log.String(), secret) {
				t.Errorf("%q is in the log:\n%s", secret, r.log)
			}
		}
	})
	t.Cleanup(r.stop)
	return r
}

// attempts returns a value of mediastack_email_delivery_attempts_total.
func (r *runningOutbox) attempts(t *testing.T, outcome string) int {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "mediastack_email_delivery_attempts_total" && metric.GetLabel()[0].GetValue() == outcome {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("there is no mediastack_email_delivery_attempts_total for %s", outcome)
	return 0
}
