package runtimetest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Request is a request that options change.
type Request struct {
	Header http.Header
	// Host is the value of the Host header; empty = that of the URL.
	Host string
	Body io.Reader
}

// Option changes a request.
type Option func(*Request)

// Header sets a header.
func Header(name, value string) Option { return func(r *Request) { r.Header.Set(name, value) } }

// Key sends an API key.
func Key(key string) Option { return Header("x-service-apikey", key) }

// Signature sends the signature of an upload.
func Signature(signature string) Option { return Header("x-service-signature", signature) }

// Text sends a body of text, in each request anew.
func Text(body string) Option { return func(r *Request) { r.Body = strings.NewReader(body) } }

// Absolute returns the URL of a path of a service. A URL stays as it is.
func Absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return BaseURL + path
	}
	return path
}

// Send sends a request by a client, and reads the response.
func Send(ctx context.Context, client *http.Client, method, url string, change ...Option) (Answer, error) {
	r := Request{Header: http.Header{}}
	for _, apply := range change {
		apply(&r)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, r.Body)
	if err != nil {
		return Answer{}, err
	}
	request.Header = r.Header
	if r.Host != "" {
		request.Host = r.Host
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}, err
}

// Answer is a response whose body was read.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Is reports an error if the status is another one. What names the request, with its arguments.
func (a Answer) Is(t testing.TB, status int, what string, args ...any) {
	t.Helper()
	CheckStatus(t, t.Errorf, a.Status, status, a.Body, what, args...)
}

// MustBe ends the test if the status is another one.
func (a Answer) MustBe(t testing.TB, status int, what string, args ...any) {
	t.Helper()
	CheckStatus(t, t.Fatalf, a.Status, status, a.Body, what, args...)
}
