package mail_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/work"
)

var must = check.NoError

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
	must(t, err)
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
		_ = listener.Close() // Close does not know it before Serve has begun
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

// buffer is a bytes.Buffer that is safe for concurrent use.
type buffer = check.Buffer

// now is the time of the tests.
var now = time.Date(2026, 11, 21, 14, 5, 0, 0, time.UTC)

// emails opens payloads that are not encrypted.
type emails struct{ err error }

func (e emails) OpenEmail(_ context.Context, payload []byte) (email oauth.LoginEmail, wanted bool, err error) {
	if e.err != nil {
		return email, false, e.err
	}
	if len(payload) == 0 {
		return email, false, nil
	}
	return email, true, json.Unmarshal(payload, &email)
}

// newTask returns the task to send an e-mail whose code expires in 10 minutes.
func newTask(t *testing.T, to string) work.Task {
	t.Helper()
	payload, err := json.Marshal(oauth.LoginEmail{To: to, Code: code, ExpiresAt: now.Add(10 * time.Minute)})
	must(t, err)
	return work.Task{Kind: oauth.EmailWork, Key: uuid.Must(uuid.NewV7()), Payload: payload, Attempt: 1}
}

// config is for an SMTP server without TLS, with the largest timeout: a test that is about it sets its own.
func config(port int) mail.Config {
	return mail.Config{Host: "127.0.0.1", Port: port, TLS: "none", From: "login@media.example", Timeout: 2 * time.Minute}
}

// sender is a mail.Sender with what it logs.
type sender struct {
	*mail.Sender
	log *buffer
	cfg mail.Config
}

// newSender returns a sender. At the end of the test, its log must contain neither the address nor the code.
func newSender(t *testing.T, cfg mail.Config) *sender {
	t.Helper()
	s := &sender{log: &buffer{}, cfg: cfg}
	made, err := mail.NewSender(cfg, "Müller & Söhne", "https://media.example.org", emails{}, func() time.Time { return now },
		slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	must(t, err)
	s.Sender = made
	t.Cleanup(func() {
		made.Close()
		checkSecrets(t, s.log.String())
	})
	return s
}

// checkSecrets fails the test if a text that is logged or stored contains a secret.
func checkSecrets(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{address, "ana.lopez", "ANA.LOPEZ", code, "right"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in a log or an error:\n%s", secret, text)
		}
	}
}

// send sends an e-mail as a task of package work does, and returns the error, without which it is delivered.
func (s *sender) send(t *testing.T, task work.Task) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.cfg.Policy().Timeout)
	defer cancel()
	err := s.Work(ctx, task)
	if err != nil {
		checkSecrets(t, err.Error())
	}
	return err
}

// isDiscarded reports whether an error ends a task.
func isDiscarded(err error) bool {
	return err != nil && reflect.TypeOf(err) == reflect.TypeOf(work.Discard(errDown))
}
