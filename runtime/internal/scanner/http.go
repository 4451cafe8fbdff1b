package scanner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"mediastack.dev/runtime/gate"
)

// maxAnswer bounds the answer of a service, in bytes.
const maxAnswer = 16 << 10

// HTTP is a client of services that answer by HTTP: a POST with the bytes of the file is answered 200 with
// {"verdict": "clean" | "infected" | "unscannable", "name": "…"}, or 413 for a file that is too large.
type HTTP struct {
	urls   []string
	client *http.Client
	idle   time.Duration
	next   atomic.Uint32 // the service that is asked next
}

var _ gate.Scanner = (*HTTP)(nil)

func newHTTP(urls []string, idle time.Duration) *HTTP {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: idle,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   8,
		DisableCompression:    true,
	}
	return &HTTP{urls: urls, idle: idle, client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Scan implements gate.Scanner. The file can be read once, so one service is asked; a retry asks the next one.
func (h *HTTP) Scan(ctx context.Context, file io.Reader, size int64) (gate.Result, error) {
	service := h.urls[int(h.next.Load())%len(h.urls)]
	result, err := h.ask(ctx, service, file, size)
	if err != nil && !errors.Is(err, gate.ErrFile) {
		h.next.Add(1)
	}
	return result, err
}

// Ping implements gate.Scanner: it sends an empty file to the services, until one answers.
func (h *HTTP) Ping(ctx context.Context) error {
	var err error
	for range h.urls {
		if _, err = h.Scan(ctx, http.NoBody, 0); err == nil || errors.Is(err, gate.ErrFile) {
			return nil
		}
	}
	return err
}

func (h *HTTP) ask(ctx context.Context, service string, file io.Reader, size int64) (gate.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := &watched{Reader: file, timer: time.AfterFunc(h.idle, cancel), idle: h.idle}
	defer body.timer.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, service, io.NopCloser(body))
	if err != nil {
		return gate.Result{}, errors.New("the URL of the scanner is not valid")
	}
	request.ContentLength = size
	if size == 0 {
		request.Body = http.NoBody
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	request.Header.Set("Accept", "application/json")
	answer, err := h.client.Do(request)
	if err != nil {
		return gate.Result{}, body.failure(fmt.Errorf("the scanner does not answer: %w", withoutURL(err)))
	}
	defer func() { _ = answer.Body.Close() }()
	body.touch()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusRequestEntityTooLarge:
		return gate.Result{Outcome: gate.Unscannable, Name: "it is too large for the scanner"}, nil
	case http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType:
		return gate.Result{}, fmt.Errorf("%w: it answers %d", gate.ErrFile, answer.StatusCode)
	case http.StatusInternalServerError: // the file may be the cause
		return gate.Result{}, body.failure(fmt.Errorf("the scanner answers %d", answer.StatusCode))
	default:
		return gate.Result{}, fmt.Errorf("the scanner answers %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return gate.Result{}, body.failure(fmt.Errorf("the scanner does not answer: %w", withoutURL(err)))
	}
	return parseAnswer(text)
}

// parseAnswer returns the result in an answer.
func parseAnswer(text []byte) (gate.Result, error) {
	var answer struct {
		Outcome gate.Outcome `json:"verdict"`
		Name    string       `json:"name"`
	}
	if len(text) > maxAnswer || json.Unmarshal(text, &answer) != nil {
		return gate.Result{}, errors.New(`the scanner answers with something else than {"verdict": "clean", "name": ""}`)
	}
	switch answer.Outcome {
	case gate.Clean:
		return gate.Result{Outcome: gate.Clean}, nil
	case gate.Infected, gate.Unscannable:
		name := printable(answer.Name)
		if name == "" {
			name = "an unnamed finding"
		}
		return gate.Result{Outcome: answer.Outcome, Name: name}, nil
	}
	return gate.Result{}, fmt.Errorf("the scanner answers with the result %s, which is none", printable(string(answer.Outcome)))
}

// watched ends a request of which no byte is read for a while.
type watched struct {
	io.Reader
	timer *time.Timer
	idle  time.Duration
	taken atomic.Bool // a connection has taken some of it
}

// failure returns the error of a request that has failed: ErrInterrupted if the scanner had some of the file.
func (w *watched) failure(err error) error {
	if w.taken.Load() {
		return fmt.Errorf("%w: %w", gate.ErrInterrupted, err)
	}
	return err
}

func (w *watched) touch() { w.timer.Reset(w.idle) }

// Read reads the next bytes.
func (w *watched) Read(p []byte) (int, error) {
	w.touch()
	w.taken.Store(true)
	n, err := w.Reader.Read(p)
	if errors.Is(err, io.EOF) { // ResponseHeaderTimeout counts from here on
		w.timer.Stop()
	}
	return n, err
}

// withoutURL returns the cause of an error of net/http, whose text has the URL and so perhaps a password.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
