package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// eventsOfPage is how many events a request reads, and maxPage bounds the bytes of its answer.
	eventsOfPage = 1000
	maxPage      = 32 << 20
	// waitForEvents is how long a request waits for an event. A service may wait less.
	waitForEvents = 30 * time.Second
)

// feed reads the events of an app from the service. It is a client of its own: the one in clients/go would add its libraries to the plugin.
type feed struct {
	base   *url.URL
	key    string
	header string
	types  []string
	client *http.Client
}

// newFeed returns a feed of the service at a base URL.
func newFeed(base, key, brand string, types []string) (*feed, error) {
	address, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || address.Host == "" || address.User != nil || address.Scheme != "http" && address.Scheme != "https" {
		return nil, fmt.Errorf("the URL of the service must be an http or https URL without a user, such as https://media.example.org, not %q", base)
	}
	// A redirect would take the key elsewhere. The service has none.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &feed{base: address, key: key, header: "x-" + brand + "-apikey", types: types, client: client}, nil
}

// event is an event as the service tells it.
type event struct {
	Type    string    `json:"type"`
	Time    time.Time `json:"time"`
	MediaID string    `json:"mediaId"`
	Actor   *actor
	Fields  []string `json:"fields"`
	Percent int      `json:"percent"`

	document json.RawMessage
}

// actor is who made a change, or has decided about what AskedBy wants to do.
type actor struct {
	Kind, Name, Email string
	AskedBy           *actor
}

// UnmarshalJSON keeps the document beside the members that the table needs.
func (e *event) UnmarshalJSON(document []byte) error {
	type members event
	if err := json.Unmarshal(document, (*members)(e)); err != nil {
		return err
	}
	e.document = append(json.RawMessage(nil), document...)
	return nil
}

type eventPage struct {
	Events []event `json:"events"`
	Next   string  `json:"next"`
	More   bool    `json:"more"`
}

// answerError is an answer of the service that is no page.
type answerError struct {
	status     int
	detail     string
	retryAfter time.Duration
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("the service answers %d", e.status)
	if e.detail != "" {
		text += ": " + e.detail
	}
	return text
}

// unreachableError is a request without an answer.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string { return e.cause.Error() }
func (e *unreachableError) Unwrap() error { return e.cause }

// passes reports whether the same request may succeed later, and when at the earliest.
func passes(err error) (after time.Duration, later bool) {
	var answered *answerError
	if errors.As(err, &answered) {
		switch answered.status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return answered.retryAfter, true
		}
		return 0, false
	}
	var unreachable *unreachableError
	return 0, errors.As(err, &unreachable)
}

// read reads the page after a cursor, and waits so long for its first event.
func (f *feed) read(ctx context.Context, after string, wait time.Duration) (page eventPage, err error) {
	query := url.Values{"limit": {strconv.Itoa(eventsOfPage)}}
	if after != "" {
		query.Set("after", after)
	}
	if len(f.types) > 0 {
		query.Set("types", strings.Join(f.types, ","))
	}
	if wait > 0 {
		query.Set("wait", strconv.Itoa(int(wait.Seconds())))
	}
	bounded, cancel := context.WithTimeout(ctx, wait+requestTimeout)
	defer cancel()
	address := *f.base
	address.Path += "/events"
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(bounded, http.MethodGet, address.String(), nil)
	if err != nil {
		return eventPage{}, err
	}
	request.Header.Set(f.header, f.key)
	request.Header.Set("User-Agent", "kubectl-mediastack/"+version)
	answer, err := f.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return eventPage{}, ctx.Err()
		}
		var failure *url.Error
		if errors.As(err, &failure) { // without the address, which has the cursor
			err = failure.Err
		}
		return eventPage{}, &unreachableError{err}
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if err != nil {
		if ctx.Err() != nil {
			return eventPage{}, ctx.Err()
		}
		return eventPage{}, &unreachableError{fmt.Errorf("the answer ended early: %w", err)}
	}
	if answer.StatusCode != http.StatusOK {
		var document struct{ Error, Detail string }
		_ = json.Unmarshal(body, &document) // that of a proxy is of another kind
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		if document.Detail == "" {
			document.Detail = document.Error
		}
		return eventPage{}, &answerError{answer.StatusCode, printable(document.Detail), time.Duration(max(seconds, 0)) * time.Second}
	}
	if err := json.Unmarshal(body, &page); err != nil || page.Next == "" {
		return eventPage{}, fmt.Errorf("the answer of %s is not one of mediastack", f.base)
	}
	return page, nil
}
