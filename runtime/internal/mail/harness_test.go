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

// trusted is the certificate that this process trusts, as an operator makes it trust a
// private authority: through SSL_CERT_FILE.
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

// taken is a letter that the mail server took.
type taken struct {
	from, to string
	tls      bool
	user     string
	data     string
}

// server is a mail server on a real port. Its functions, when set, decide.
type server struct {
	port        int
	implicit    bool
	certificate *tls.Certificate // nil = no TLS
	user        string           // set = it wants authentication
	onMail      func() error
	onRcpt      func(to string) error
	onData      func() error // before the data is answered
	onReset     func(*smtp.Conn)

	mu       sync.Mutex
	letters  []taken
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

func (s *server) taken() []taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]taken(nil), s.letters...)
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

type session struct {
	server *server
	conn   *smtp.Conn
	letter taken
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
	s.letter = taken{from: from, tls: secured, user: s.user}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.letter.to = to
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
	s.letter.data = string(data)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.letters = append(s.server.letters, s.letter)
	return nil
}

func (s *session) Reset() {
	if s.server.onReset != nil && s.letter.data != "" {
		s.server.onReset(s.conn)
	}
	s.letter = taken{}
}

func (s *session) Logout() error { return nil }

// clock is moved by hand.
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

// queue keeps letters as the one in PostgreSQL does.
type queue struct {
	clock   *clock
	waiting chan struct{}

	mu     sync.Mutex
	rows   map[int64]*row
	claims int
	// broken is what all methods answer while it is set.
	broken error
	// deaf is what Sent and Retry answer while it is set.
	deaf error
}

type row struct {
	letter oauth.Letter
	due    time.Time
}

func newQueue(clock *clock) *queue {
	return &queue{clock: clock, waiting: make(chan struct{}, 1), rows: map[int64]*row{}}
}

// put adds a letter for 10 minutes and gives its id.
func (q *queue) put(to string) int64 {
	defer q.poke()
	return q.putQuietly(to)
}

// putQuietly adds a letter as another replica would: nobody here is told.
func (q *queue) putQuietly(to string) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	id := int64(len(q.rows) + 1)
	q.rows[id] = &row{due: q.clock.Now(), letter: oauth.Letter{ID: id, To: to, Code: code, ExpiresAt: q.clock.Now().Add(10 * time.Minute)}}
	return id
}

func (q *queue) poke() {
	select {
	case q.waiting <- struct{}{}:
	default:
	}
}

// move lets time pass and wakes whoever waits for it.
func (q *queue) move(by time.Duration) {
	q.clock.move(by)
	q.poke()
}

func (q *queue) set(broken, deaf error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broken, q.deaf = broken, deaf
}

func (q *queue) left() int {
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

// next returns when a letter is due, and how often it was claimed.
func (q *queue) next(id int64) (wait time.Duration, attempts int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rows[id] == nil {
		return 0, 0
	}
	return q.rows[id].due.Sub(q.clock.Now()), q.rows[id].letter.Attempts
}

func (q *queue) Claim(_ context.Context, most int, lease time.Duration) ([]oauth.Letter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims++
	if q.broken != nil {
		return nil, q.broken
	}
	now := q.clock.Now()
	var letters []oauth.Letter
	for id := int64(1); id <= int64(len(q.rows)) && len(letters) < most; id++ {
		if row := q.rows[id]; row != nil && !now.Before(row.due) {
			row.due = now.Add(lease)
			row.letter.Attempts++
			letters = append(letters, row.letter)
		}
	}
	return letters, nil
}

func (q *queue) Sent(_ context.Context, id int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := errors.Join(q.broken, q.deaf); err != nil {
		return err
	}
	q.rows[id] = nil
	return nil
}

func (q *queue) Retry(_ context.Context, id int64, at time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := errors.Join(q.broken, q.deaf); err != nil {
		return err
	}
	q.rows[id].due = at
	return nil
}

func (q *queue) Waiting() <-chan struct{} { return q.waiting }

// buffer is written by an outbox while the test reads it.
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

// running is an outbox at work.
type running struct {
	log      *buffer
	registry *prometheus.Registry
	stop     func() // and wait
}

// config is for a mail server in clear.
func config(port int) mail.Config {
	return mail.Config{Host: "127.0.0.1", Port: port, TLS: "none", From: "login@media.example", Timeout: 10 * time.Second}
}

// run starts an outbox. Whatever it logs in the course of the test must not tell the
// address or the code.
func run(t *testing.T, cfg mail.Config, queue *queue) *running {
	t.Helper()
	r := &running{log: &buffer{}, registry: prometheus.NewRegistry()}
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

// count returns a value of mediastack_email_delivery_attempts_total.
func (r *running) count(t *testing.T, outcome string) int {
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

func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}
