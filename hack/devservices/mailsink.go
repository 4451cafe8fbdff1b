package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

const (
	mailMaxBytes   = 1 << 20
	mailTimeout    = 30 * time.Second
	mailRecipients = 50
)

// mailsinkCommand is an SMTP server that delivers nothing: it prints every message, so that a
// developer can read a login code, and a test can, too.
type mailsinkCommand struct {
	Listen string `default:"127.0.0.1:2525" help:"Address to serve on."`
}

// Run serves until the context ends.
func (c *mailsinkCommand) Run(ctx context.Context) error {
	server := smtp.NewServer(&mailSink{out: os.Stdout})
	server.Addr = c.Listen
	server.Domain = "mailsink.localhost"
	server.MaxMessageBytes = mailMaxBytes
	server.MaxRecipients = mailRecipients
	server.ReadTimeout = mailTimeout
	server.WriteTimeout = mailTimeout

	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()

	if err := server.ListenAndServe(); err != nil && !errors.Is(err, smtp.ErrServerClosed) && ctx.Err() == nil {
		return fmt.Errorf("serve on %s: %w", c.Listen, err)
	}
	return nil
}

// mailSink prints whole messages, one at a time.
type mailSink struct {
	mu  sync.Mutex
	out io.Writer
}

// NewSession begins a conversation with one client.
func (m *mailSink) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &mailSession{sink: m}, nil
}

type mailSession struct {
	sink *mailSink
	from string
	to   []string
}

func (s *mailSession) Reset() { s.from, s.to = "", nil }

func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "----- mail from %s to %s at %s\n", s.from, strings.Join(s.to, ", "), time.Now().Format(time.RFC3339))
	text.Write(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")))
	text.WriteString("\n----- end of mail\n")

	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	_, err = s.sink.out.Write(text.Bytes())
	return err
}
