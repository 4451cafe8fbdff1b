package mediastack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultAttempts       = 5
	defaultUploadAttempts = 12
	defaultMaxDelay       = 30 * time.Second
	firstBackoff          = 250 * time.Millisecond
	maxBackoff            = 8 * time.Second
)

// transport sends requests with their credential, and again after errors that pass.
type transport struct {
	base       *url.URL
	brand      string
	credential Credential
	retry      Retry
	// client sends requests of the API, files those of files.
	client, files *http.Client
}

func newTransport(base *url.URL, credential Credential, options Options) (*transport, error) {
	t := &transport{base: base, brand: cmp.Or(options.Brand, "service"), credential: credential, retry: options.Retry}
	if t.retry.Attempts < 0 || t.retry.UploadAttempts < 0 || t.retry.MaxDelay < 0 {
		return nil, fmt.Errorf("mediastack: a limit of Retry is negative: %d, %d, %s", t.retry.Attempts, t.retry.UploadAttempts, t.retry.MaxDelay)
	}
	t.retry.Attempts = cmp.Or(t.retry.Attempts, defaultAttempts)
	t.retry.UploadAttempts = cmp.Or(t.retry.UploadAttempts, defaultUploadAttempts)
	t.retry.MaxDelay = cmp.Or(t.retry.MaxDelay, defaultMaxDelay)
	if t.retry.Wait == nil {
		t.retry.Wait = wait
	}
	t.files = cmp.Or(options.HTTPClient, http.DefaultClient)
	client := *t.files
	// A redirect would take the credential elsewhere; the routes of the API have none.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.client = &client
	return t, nil
}

// Do sends a request of the API until it has an answer that will not change, and returns *Error for one that is
// an error. The body of the answer is read. A body of the request can be sent again if it has GetBody.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	// The draft of a form whose answer was lost may be stored, and an upload from a URL may have begun: they are not sent
	// twice.
	creates := r.Method == http.MethodPost && (r.URL.Path == t.base.Path+"/media/create" || r.URL.Path == t.base.Path+"/media/create/url")
	return t.repeat(r, !creates, t.once)
}

// once sends a request of the API one time.
func (t *transport) once(r *http.Request) (*http.Response, error) {
	value, err := t.credential.value(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, &credentialError{err}
	}
	r.Header.Set(t.credential.header(t.brand), t.credential.prefix+value)
	response, err := t.client.Do(r)
	if err != nil {
		return nil, connectionError(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, connectionError(err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, newError(response, body, time.Now())
	}
	if len(body) > 0 && !json.Valid(body) {
		// A document that is cut off is as if the connection had failed. Anything else is the page of a proxy, such as that of a
		// network which wants a login.
		if strings.Contains(response.Header.Get("Content-Type"), "json") {
			return nil, connectionError(io.ErrUnexpectedEOF)
		}
		return nil, newError(response, body, time.Now())
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// open sends a request of a file one time, without the credential. The body of the answer is the caller's.
func (t *transport) open(r *http.Request) (*http.Response, error) {
	response, err := t.files.Do(r)
	if err != nil {
		return nil, connectionError(err)
	}
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return response, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, connectionError(err)
	}
	return nil, newError(response, body, time.Now())
}

// repeat sends a request until it succeeds or its error does not pass.
func (t *transport) repeat(r *http.Request, idempotent bool, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, repeated := r.Context(), false
	for attempt := 1; ; attempt++ {
		next := r.Clone(ctx)
		if attempt > 1 && r.GetBody != nil {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			next.Body = body
		}
		response, err := send(next)
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var answered *Error
		if errors.As(err, &answered) {
			answered.Repeated = repeated
		} else {
			repeated = true
			if !idempotent {
				return nil, err
			}
		}
		delay, ok := t.delay(err, attempt, t.retry.Attempts)
		if !ok || r.Body != nil && r.GetBody == nil {
			return nil, err
		}
		if err := t.retry.Wait(ctx, delay); err != nil {
			return nil, err
		}
	}
}

// delay returns the time before a request is sent again after an error, and whether it is.
func (t *transport) delay(err error, attempt, attempts int) (time.Duration, bool) {
	var credential *credentialError
	if attempt >= attempts || errors.As(err, &credential) {
		return 0, false
	}
	backoff := t.backoff(attempt)
	var answered *Error
	if !errors.As(err, &answered) {
		return backoff, true
	}
	if answered.Status != http.StatusTooManyRequests && answered.Status != http.StatusServiceUnavailable {
		return 0, false
	}
	delay := cmp.Or(answered.RetryAfter, backoff)
	return delay, delay <= t.retry.MaxDelay
}

// backoff returns a random time that is longer the more attempts have failed.
func (t *transport) backoff(attempt int) time.Duration {
	backoff := min(firstBackoff<<min(attempt-1, 10), maxBackoff, t.retry.MaxDelay)
	return backoff/2 + rand.N(backoff/2+1)
}

// credentialError is an error of the function that returns the credential.
type credentialError struct{ error }

// Unwrap returns the error of the function.
func (e *credentialError) Unwrap() error { return e.error }

func wait(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
