package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
)

// Fault is what the proxy does to the next requests of one method and path.
type Fault struct {
	Method string `json:"method"`
	// Path is the beginning of the path.
	Path string `json:"path"`
	// Count is how many requests it is for.
	Count int `json:"count"`
	// Status is answered instead of the service, with Retry-After and Location if they are not empty, and Body.
	Status     int    `json:"status"`
	RetryAfter string `json:"retryAfter"`
	Location   string `json:"location"`
	Body       string `json:"body"`
	// CutAfter ends the connection after so many bytes of the request.
	CutAfter int64 `json:"cutAfter"`
	// LoseAnswer ends the connection when the service has answered, before the answer is passed on.
	// BreakAnswer does so within its body: browsers themselves repeat a request without an answer.
	LoseAnswer  bool `json:"loseAnswer"`
	BreakAnswer bool `json:"breakAnswer"`
	// Hold keeps the request, or its first CutAfter bytes, until the client ends it or Release is called, and then ends
	// its connection. Delay keeps it likewise, and then passes it on.
	Hold  bool `json:"hold"`
	Delay bool `json:"delay"`
}

// Front is the one address of the service, as a load balancer is.
type Front struct {
	proxy  *httputil.ReverseProxy
	target string

	mu     sync.Mutex
	faults []*Fault
	seen   []string
	bytes  int64 // of bodies that clients sent
	held   chan struct{}
}

var errFault = errors.New("the connection is broken as planned")

func newFront() *Front {
	f := &Front{held: make(chan struct{})}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", f.target, r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			fault, _ := r.Request.Context().Value(faultKey{}).(*Fault)
			switch {
			case fault != nil && fault.LoseAnswer:
				return errFault
			case fault != nil && fault.BreakAnswer:
				r.Body = brokenBody{r.Body}
			}
			return nil
		},
		// It ends the connection of the client.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
		// The part of an answer before the break is passed on.
		FlushInterval: -1,
	}
	return f
}

// Plan adds a fault.
func (f *Front) Plan(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault)
}

// Seen returns the requests since the last call, and the bytes of their bodies.
func (f *Front) Seen() (requests []string, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests, bytes = f.seen, f.bytes
	f.seen, f.bytes = []string{}, 0
	return requests, bytes
}

// Reset forgets the planned faults and the requests, and releases those that are held.
func (f *Front) Reset() {
	f.Release()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen, f.bytes, f.faults = []string{}, 0, nil
}

// Release ends the connections of the requests that are held, and passes on those that are delayed.
func (f *Front) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.held)
	f.held = make(chan struct{})
}

// hold keeps a request, of which it reads the first bytes, or all.
func (f *Front) hold(r *http.Request, bytes int64, released <-chan struct{}) {
	if bytes > 0 {
		_, _ = io.CopyN(io.Discard, r.Body, bytes)
	} else {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	select {
	case <-released:
	case <-r.Context().Done():
	}
	panic(http.ErrAbortHandler)
}

// take records a request, and returns the fault that is planned for it and a channel that the next Release closes. So a release after Seen has
// named the request is one of this request.
func (f *Front) take(r *http.Request) (*Fault, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodOptions {
		return nil, f.held // a preflight of a browser
	}
	f.seen = append(f.seen, r.Method+" "+r.URL.Path)
	for _, fault := range f.faults {
		if fault.Count > 0 && fault.Method == r.Method && strings.HasPrefix(r.URL.Path, fault.Path) {
			fault.Count--
			return fault, f.held
		}
	}
	return nil, f.held
}

// ServeHTTP passes a request to the service, or does what is planned.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, released := f.take(r)
	body := &countedBody{ReadCloser: r.Body, front: f, left: -1}
	r.Body = body
	switch {
	case fault == nil:
	case fault.Hold:
		f.hold(r, fault.CutAfter, released)
	case fault.Delay:
		select {
		case <-released:
		case <-r.Context().Done():
		}
	case fault.Status != 0:
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id")
		w.Header().Set("X-Request-Id", "planned")
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		if fault.Location != "" {
			w.Header().Set("Location", fault.Location)
		}
		w.WriteHeader(fault.Status)
		_, _ = io.WriteString(w, fault.Body)
		return
	default:
		if fault.CutAfter > 0 {
			body.left = fault.CutAfter
		}
		r = withFault(r, fault)
	}
	f.proxy.ServeHTTP(w, r)
}

// Control serves the methods to scripts.
func (f *Front) Control() http.Handler {
	control := http.NewServeMux()
	control.HandleFunc("POST /plan", func(w http.ResponseWriter, r *http.Request) {
		var fault Fault
		if err := json.NewDecoder(r.Body).Decode(&fault); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.Plan(fault)
	})
	control.HandleFunc("POST /reset", func(http.ResponseWriter, *http.Request) { f.Reset() })
	control.HandleFunc("POST /release", func(http.ResponseWriter, *http.Request) { f.Release() })
	control.HandleFunc("POST /seen", func(w http.ResponseWriter, _ *http.Request) {
		requests, bytes := f.Seen()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"requests": requests, "bytes": bytes})
	})
	return control
}

// countedBody counts what a client sends, and fails after left bytes unless that is negative.
type countedBody struct {
	io.ReadCloser
	front *Front
	left  int64
}

// Read reads from the client.
func (b *countedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errFault
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	b.front.mu.Lock()
	defer b.front.mu.Unlock()
	b.front.bytes += int64(n)
	return n, err
}

// brokenBody is the body of an answer that ends after its first byte.
type brokenBody struct{ io.ReadCloser }

// Read returns one byte, and errFault.
func (b brokenBody) Read(p []byte) (int, error) {
	n, err := io.ReadFull(b.ReadCloser, p[:1])
	return n, errors.Join(err, errFault)
}

type faultKey struct{}

func withFault(r *http.Request, fault *Fault) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), faultKey{}, fault))
}
