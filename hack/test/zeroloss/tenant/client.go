package tenant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/hack/exchange"
)

// request is what a client wants answered.
type request struct {
	method, url string
	body        []byte
	header      []string // names and values, one after the other
	// want is the status of success. repeated is one that means the same when the request was
	// sent before and its answer was lost: 404 of a delete.
	want, repeated int
	// mayLack says that 404 is an answer, too.
	mayLack bool
	// acknowledge is called with the answer of success, before the request counts as ended.
	acknowledge func(answer, *phase)
	// resumes is set for a part of a resumable upload: it is never sent again as it is.
	resumes bool
}

// succeeds reports whether a status is one of success.
func (r request) succeeds(status int, repeated bool) bool {
	return status == r.want || repeated && status == r.repeated || r.mayLack && status == http.StatusNotFound
}

// answer is the last answer to a request.
type answer = exchange.Answer

// connectionError is a request without an answer.
type connectionError struct{ err error }

func (e connectionError) Error() string { return "no answer: " + e.err.Error() }
func (e connectionError) Unwrap() error { return e.err }

// unconnected reports whether no connection was made: nothing of the request was sent.
func (e connectionError) unconnected() bool {
	var failed *net.OpError
	return errors.As(e.err, &failed) && failed.Op == "dial"
}

// do sends a request as a correct client does: once more if a connection failed, twice more if none was made,
// and again when Retry-After asks for it. It counts the request, not its attempts.
func (t *Tenant) do(ctx context.Context, r request) (answer, error) {
	count := t.ledger.begin()
	begun := time.Now()
	deadline := begun.Add(t.config.Wait)
	got, attempts, err := t.attempts(ctx, r, deadline, count)
	if err == nil && !r.succeeds(got.Status, attempts > 1) {
		err = fmt.Errorf("%d %.200s", got.Status, got.Body)
	}
	if err != nil {
		err = fmt.Errorf("%s %s, attempt %d after %s: %w", r.method, strings.TrimPrefix(r.url, t.config.BaseURL), attempts, time.Since(begun).Round(time.Millisecond), err)
	}
	if err == nil && r.acknowledge != nil {
		r.acknowledge(got, count.phase)
	}
	count.end(begun, err, r.resumes)
	return got, err
}

func (t *Tenant) attempts(ctx context.Context, r request, deadline time.Time, count *counted) (got answer, attempts int, err error) {
	broken, unconnected := 1, maxConnects-1 // attempts that are left after such an error
	for {
		attempts++
		got, err = t.send(ctx, r)
		var pause time.Duration
		if err != nil {
			failed := connectionError{err}
			left := &broken
			if failed.unconnected() {
				left = &unconnected
			}
			if r.resumes || *left == 0 {
				return got, attempts, failed
			}
			*left--
			pause = t.config.Retry
			count.retried = true
		} else {
			if pause = retryAfter(got); pause == 0 {
				return got, attempts, nil
			}
			count.waited = true
		}
		if time.Now().Add(pause).After(deadline) {
			return got, attempts, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return got, attempts, ctx.Err()
		}
		if r.resumes {
			return got, attempts, err
		}
	}
}

// send is one attempt. Every other one has a connection of its own.
func (t *Tenant) send(ctx context.Context, r request) (answer, error) {
	header := r.header
	if !strings.Contains(r.url, "/media/file/") {
		header = slices.Concat(header, []string{"x-service-apikey", t.config.Key})
	}
	client := t.kept
	if rand.IntN(2) == 0 {
		client = t.fresh
	}
	return exchange.Send(ctx, client, r.method, r.url, bytes.NewReader(r.body), header...)
}

// retryAfter returns what an answer asks the client to wait; 0 if it does not. The tools of MCP say it in
// a result, for whose code a client waits as long as REST would have asked it to.
func retryAfter(got answer) time.Duration {
	if got.Status == http.StatusTooManyRequests || got.Status == http.StatusServiceUnavailable {
		seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
		if err == nil && seconds > 0 {
			return time.Duration(seconds) * time.Second
		}
	}
	var called toolAnswer
	if got.Status == http.StatusOK && bytes.Contains(got.Body, []byte("isError")) && json.Unmarshal(got.Body, &called) == nil {
		if code := called.Result.Meta.Code; called.Result.IsError && (code == "unavailable" || code == "too_many_requests") {
			return toolPause
		}
	}
	return 0
}

// toolPause is the least value of Retry-After of an answer whose fault has none.
const toolPause = 5 * time.Second

// maxConnects is how often a client tries to connect for one request.
const maxConnects = 3

type toolAnswer struct {
	Result struct {
		IsError bool `json:"isError"`
		Meta    struct {
			Code string `json:"mediastack.dev/code"`
		} `json:"_meta"`
		StructuredContent json.RawMessage `json:"structuredContent"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}
