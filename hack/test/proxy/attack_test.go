package proxy

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
)

// withheld is a request whose body comes one byte a second.
type withheld struct {
	path    string
	headers string // with Content-Length or Transfer-Encoding
	first   string // the beginning of the body
	next    string // one byte more
}

// tusHead is that of an upload which begins with its creation.
const tusHead = "Tus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\n"

// withholding are the requests by their interface. Bodies of JSON have at most 64 KiB.
var withholding = map[string]withheld{
	"rest":    {"/media/signature/create", "Content-Type: application/json\r\nContent-Length: 1000\r\n", "{", " "},
	"batch":   {"/media/batch", "Content-Type: application/json\r\nContent-Length: 65536\r\n", "{", " "},
	"mcp":     {"/mcp", "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 1000\r\n", "{", " "},
	"tus":     {"/media/create/resumable", tusHead + "Upload-Length: 1000000\r\nContent-Length: 1000000\r\n", "x", "x"},
	"chunked": {"/media/signature/create", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", "1\r\n{\r\n", "1\r\n \r\n"},
	"expect":  {"/media/signature/create", "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n", "{", " "},
	// A file whose slot is not free may wait with its body unread.
	"form": {"/media/create", "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000000\r\n", "--x\r\n", "x"},
}

// attack holds connections of clients that send one byte a second. Each that ends is opened again.
type attack struct {
	address string
	host    string // of the base URL
	request withheld
	keys    []string
	// addresses is how many addresses the clients have.
	addresses int
	connect   int // pace at which they are opened first, per second
	again     int // and at which those that have ended are

	mu      sync.Mutex
	open    map[int]net.Conn
	answers map[string]int // by status
	ended   chan int
	stop    context.CancelFunc
	group   sync.WaitGroup
}

// begin opens n connections.
func (a *attack) begin(ctx context.Context, n int) {
	ctx, a.stop = context.WithCancel(ctx)
	a.open, a.answers, a.ended = map[int]net.Conn{}, map[string]int{}, make(chan int, n)
	for i := range n {
		a.ended <- i
	}
	a.group.Go(func() { a.reopen(ctx, n) })
	a.group.Go(func() { a.trickle(ctx) })
}

// end closes all connections.
func (a *attack) end() {
	a.stop()
	a.mu.Lock()
	for _, conn := range a.open {
		_ = conn.Close()
	}
	a.mu.Unlock()
	a.group.Wait()
}

// held returns how many connections are open and have no answer.
func (a *attack) held() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open)
}

// tried returns how many requests have begun.
func (a *attack) tried() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	tried := len(a.open)
	for _, count := range a.answers {
		tried += count
	}
	return tried
}

func (a *attack) count(answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[answer]++
}

func (a *attack) summary() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var parts []string
	for _, answer := range slices.Sorted(maps.Keys(a.answers)) {
		parts = append(parts, fmt.Sprintf("%s x%d", answer, a.answers[answer]))
	}
	return strings.Join(parts, ", ")
}

// other returns the answers that are none of these.
func (a *attack) other(expected ...string) (other []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for answer := range a.answers {
		if !slices.Contains(expected, answer) {
			other = append(other, answer)
		}
	}
	return other
}

// reopen opens all connections, and then those that have ended, at a pace.
func (a *attack) reopen(ctx context.Context, n int) {
	pace := time.NewTicker(time.Second / time.Duration(a.connect)) //nolint:forbidigo // the pace of an attacker
	defer pace.Stop()
	for opened := 0; ; opened++ {
		if opened == n {
			pace.Reset(time.Second / time.Duration(a.again))
		}
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		select {
		case <-ctx.Done():
			return
		case i := <-a.ended:
			a.group.Go(func() { a.hold(ctx, i) })
		}
	}
}

// hold sends a request, and waits for its answer.
func (a *attack) hold(ctx context.Context, i int) {
	defer func() { a.ended <- i }()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%a.addresses))}}
	conn, err := dialer.DialContext(ctx, "tcp", a.address)
	if err != nil {
		if ctx.Err() == nil {
			a.count("no connection: " + err.Error())
		}
		return
	}
	defer func() { _ = conn.Close() }()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nx-service-apikey: %s\r\n%s\r\n%s", a.request.path, a.host, a.keys[i%len(a.keys)], a.request.headers, a.request.first)
	if _, err := io.WriteString(conn, head); err != nil {
		return
	}
	a.mu.Lock()
	a.open[i] = conn
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.open, i)
	}()
	in := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost}) //nolint:bodyclose // the connection is closed
		switch {
		case err != nil:
			if ctx.Err() == nil {
				a.count("no answer: " + reason(err))
			}
			return
		case response.StatusCode == http.StatusContinue:
			continue
		}
		answer := response.Status[:3]
		if retry := response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable; retry && response.Header.Get("Retry-After") == "" {
			answer += " without Retry-After"
		}
		a.count(answer)
		return
	}
}

// reason returns why there is no answer, without addresses.
func reason(err error) string {
	if operation := (*net.OpError)(nil); errors.As(err, &operation) {
		return operation.Err.Error()
	}
	return err.Error()
}

// trickle sends one byte a second on every connection.
func (a *attack) trickle(ctx context.Context) {
	tick := time.NewTicker(time.Second) //nolint:forbidigo // the pace of the clients
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.mu.Lock()
			for _, conn := range a.open {
				_, _ = io.WriteString(conn, a.request.next) // its reader sees the end
			}
			a.mu.Unlock()
		}
	}
}

// multiplexed holds bodies as streams of HTTP/2.
type multiplexed struct {
	stop  context.CancelFunc
	group sync.WaitGroup
}

func (m *multiplexed) begin(t *testing.T, s *site, n int) {
	ctx, stop := context.WithCancel(t.Context())
	m.stop = stop
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	client := &http.Client{Transport: transport}
	key := s.tenants[0].APIKey
	for range n {
		m.group.Go(func() {
			body, sent := io.Pipe()
			context.AfterFunc(ctx, func() { _ = sent.CloseWithError(context.Canceled) })
			m.group.Go(func() { _, _ = io.WriteString(sent, "{") }) // and no more
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.http2+"/media/signature/create", body)
			if err != nil {
				return
			}
			r.Header.Set("X-Service-Apikey", key)
			r.Header.Set("Content-Type", "application/json")
			response, err := client.Do(r)
			_ = body.CloseWithError(context.Canceled)
			if err == nil {
				_ = response.Body.Close()
			}
		})
	}
	context.AfterFunc(ctx, transport.CloseIdleConnections)
}

func (m *multiplexed) end() {
	m.stop()
	m.group.Wait()
}

// latencies are those of the probes of a round.
type latencies []latency

type latency struct {
	time.Duration
	of string
}

func (l latencies) String() string {
	if len(l) == 0 {
		return "none"
	}
	slices.SortFunc(l, func(a, b latency) int { return cmp.Compare(a.Duration, b.Duration) })
	at := func(percent int) time.Duration {
		return l[min(len(l)-1, len(l)*percent/100)].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %s, p99 %s, max %s (%s) of %d", at(50), at(99), at(100), l[len(l)-1].of, len(l))
}

// prober is another tenant, with an address of its own.
type prober struct {
	t      *testing.T
	client *http.Client
	base   string
	key    string
}

func newProber(t *testing.T, base, key string, address byte) *prober {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, address)}}
	// Each request has a connection of its own, as those of many clients.
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	return &prober{t: t, base: base, key: key, client: &http.Client{Transport: transport, Timeout: wait.Timeout(t)}}
}

// send sends a request, and returns its status.
func (p *prober) send(method, path, body string, headers ...string) (int, http.Header) {
	p.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.base+path, reader)
	must(p.t, err)
	r.Header.Set("X-Service-Apikey", p.key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := p.client.Do(r)
	if err != nil {
		p.t.Errorf("%s %s: %v", method, path, err)
		return 0, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		p.t.Errorf("%s %s: %d %s %v", method, path, response.StatusCode, text, err)
	}
	return response.StatusCode, response.Header
}

const form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\na text\r\n--x--\r\n"

// probe uses every interface so many times, and returns how long each request took. All must succeed.
func (p *prober) probe(rounds int) (took latencies) {
	p.t.Helper()
	for range rounds {
		for _, request := range []struct {
			method, path, body string
			headers            []string
		}{
			{http.MethodGet, "/media/get", "", nil},
			{http.MethodPost, "/media/signature/create", "{}", []string{"Content-Type", "application/json"}},
			{http.MethodPost, "/media/create", form, []string{"Content-Type", "multipart/form-data; boundary=x"}},
			{http.MethodPost, "/media/batch", `{"operation":"seal","ids":["00000000-0000-4000-8000-000000000000"]}`, []string{"Content-Type", "application/json"}},
			{http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}},
			{http.MethodPost, "/media/create/resumable", "12345678", []string{"Content-Type", "application/offset+octet-stream", "Tus-Resumable", "1.0.0", "Upload-Length", "8"}},
		} {
			began := time.Now()
			p.send(request.method, request.path, request.body, request.headers...)
			took = append(took, latency{time.Since(began), request.method + " " + request.path})
		}
	}
	return took
}
