package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
)

// accountHeader has the account of a request to the routes of known.
const accountHeader = "X-Test-Account"

// known are routes with a credential: / has no body, /document reads JSON, and /file a file.
func known(r chi.Router) {
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	for path, document := range map[string]bool{"/document": true, "/file": false} {
		r.Post(path, func(w http.ResponseWriter, r *http.Request) {
			id := uuid.MustParse(r.Header.Get(accountHeader))
			httpapi.FromContext(r.Context()).AccountID = id
			if err := httpapi.AdmitBody(r.Context(), id); err != nil {
				httpapi.WriteError(w, r, err)
				return
			}
			httpapi.ReadDocument(r.Context(), document)
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				httpapi.WriteError(w, r, fault.Wrap(err, fault.Invalid, "%s", err))
			}
		})
	}
}

// post is the head of a request of an account, with the first byte of its body of ten.
func post(path string, account uuid.UUID, headers ...string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n" + accountHeader + ": " + account.String() + "\r\n" + strings.Join(headers, "") + "\r\n0"
}

const restOfBody = "123456789"

func from(ip string) string { return "X-Forwarded-For: " + ip + "\r\n" }

// behindProxy runs a server that trusts the address of the test as a proxy.
func behindProxy(t *testing.T, cfg Config) *Server {
	t.Helper()
	limits, err := ratelimit.New(ratelimit.Config{TrustedProxies: []string{"127.0.0.0/8"}}, ratelimit.Deps{Registry: prometheus.NewRegistry(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	return startWith(t, cfg, limits, known)
}

// waits waits until so many bodies hold a slot of an account, and a read of each waits for its client.
func (s *Server) waits(t *testing.T, n int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d bodies wait", n), func() bool {
		s.bodies.mu.Lock()
		defer s.bodies.mu.Unlock()
		waiting := 0
		for one := range s.bodies.admitted {
			if one.stalled(time.Now()) > 0 {
				waiting++
			}
		}
		return waiting == n && s.bodies.accounts.InFlight() == n
	})
}

func (s *Server) rejects(t *testing.T, status int, limit, request string, count int) {
	t.Helper()
	c := dial(t, s.Addr())
	c.send(t, request)
	if got := c.answer(t, http.MethodPost); got.status != status || got.header.Get("Retry-After") == "" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("over the bound %s: %d %v", limit, got.status, got.header)
	}
	if !hasMetric(t, s, fmt.Sprintf(`mediastack_http_bodies_rejected_total{limit=%q} %d`, limit, count)) {
		t.Errorf("%d rejections by %s are not counted", count, limit)
	}
}

// succeeds sends a whole request, or the rest of one.
func (c *client) succeeds(t *testing.T, what, text string) {
	t.Helper()
	c.send(t, text)
	if got := c.answer(t, http.MethodPost); got.status != http.StatusOK {
		t.Errorf("%s: %d", what, got.status)
	}
}

// Behind a proxy, one key once held all connections of a replica.
func TestBodies_OfOneAccountHoldAPartOfTheConnections(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnections, cfg.BodyPerAccountPercent = 40, 25
	s := behindProxy(t, cfg)
	account, other := uuid.New(), uuid.New()
	var held []*client
	for i := range 10 {
		c := dial(t, s.Addr())
		c.send(t, post("/document", account, from(fmt.Sprintf("192.0.2.%d", i))))
		held = append(held, c)
	}
	s.waits(t, 10)
	for i := range 3 {
		s.rejects(t, http.StatusTooManyRequests, bodyOfAccount, post("/document", account, from("192.0.2.100")), i+1)
	}
	if !hasMetric(t, s, "mediastack_http_bodies_in_flight 10") || !hasMetric(t, s, "mediastack_http_bodies_limit 30") {
		t.Error("the bodies are not counted")
	}
	dial(t, s.Addr()).succeeds(t, "another account", post("/document", other)+restOfBody)
	// A body that has arrived leaves its place, also to the next one of its connection.
	held[0].succeeds(t, "the rest of a body", restOfBody)
	held[0].succeeds(t, "the next request", post("/document", account)+restOfBody)
	// So does one whose client leaves.
	must(t, held[1].Close())
	s.waits(t, 8)
	dial(t, s.Addr()).succeeds(t, "the account again", post("/document", account)+restOfBody)
}

// A request that works on what has arrived holds a connection, but not by its client's fault.
func TestBodies_OfRequestsThatWorkAreNotCounted(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnections, cfg.BodyPerAccountPercent = 40, 1
	works, done := make(chan struct{}), make(chan struct{})
	s := startWith(t, cfg, nil, func(r chi.Router) {
		r.Post("/", func(w http.ResponseWriter, r *http.Request) {
			if err := httpapi.AdmitBody(r.Context(), uuid.MustParse(r.Header.Get(accountHeader))); err != nil {
				httpapi.WriteError(w, r, err)
				return
			}
			_, err := io.ReadFull(r.Body, make([]byte, 10)) // all of it, and not its end
			if err != nil {
				httpapi.WriteError(w, r, err)
				return
			}
			works <- struct{}{}
			<-done
		})
	})
	account := uuid.New()
	var requests []*client
	for range 3 { // of an account that may have one body on its way
		c := dial(t, s.Addr())
		c.send(t, post("/", account)+restOfBody)
		wait.Receive(t, "a request works", works)
		requests = append(requests, c)
	}
	if n := s.bodies.accounts.InFlight(); n != 0 {
		t.Errorf("%d bodies that have arrived are counted", n)
	}
	close(done)
	for _, c := range requests {
		if got := c.answer(t, http.MethodPost); got.status != http.StatusOK {
			t.Errorf("a request that worked: %d", got.status)
		}
	}
}

func TestBodies_OfOneForwardedAddressAreBounded(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnectionsPerIP = 5
	s := behindProxy(t, cfg)
	for range 5 {
		dial(t, s.Addr()).send(t, post("/document", uuid.New(), from("192.0.2.1")))
	}
	s.waits(t, 5)
	s.rejects(t, http.StatusTooManyRequests, bodyOfIP, post("/document", uuid.New(), from("192.0.2.1")), 1)
	// Also without a credential: the route does not exist.
	s.rejects(t, http.StatusTooManyRequests, bodyOfIP, "POST /unknown HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"+from("192.0.2.1")+"\r\n", 2)
	c := dial(t, s.Addr())
	c.send(t, "GET / HTTP/1.1\r\nHost: x\r\n"+from("192.0.2.1")+"\r\n")
	if got := c.answer(t, http.MethodGet); got.status != http.StatusOK {
		t.Errorf("without a body: %d", got.status)
	}
	dial(t, s.Addr()).succeeds(t, "another address", post("/document", uuid.New(), from("192.0.2.2"))+restOfBody)
	// A proxy that names no client is not one client.
	for range 10 {
		dial(t, s.Addr()).send(t, post("/document", uuid.New()))
	}
	s.waits(t, 15)
}

func TestBodies_OfAllAccountsLeaveConnections(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnections = 16
	s := behindProxy(t, cfg)
	account := uuid.New()
	for range 12 {
		dial(t, s.Addr()).send(t, post("/file", account))
	}
	s.waits(t, 12)
	// None of them is stalled yet. An account without a body gets its first one.
	s.rejects(t, http.StatusServiceUnavailable, bodyOfTotal, post("/file", account), 1)
	dial(t, s.Addr()).succeeds(t, "another account", post("/file", uuid.New())+restOfBody)
}

// Five accounts could once hold all slots of bodies, and another account had one body at a time.
func TestBodies_OfManyAccountsLeaveSlotsForOthers(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.BodyPerAccountPercent = 15
	const connections, limit = 4000, 3000
	for _, accounts := range []int{5, 10, 30} {
		b, err := newBodies(cfg, connections, (*ratelimit.Limiter)(nil).TrustsProxy, prometheus.NewRegistry())
		must(t, err)
		take := func(id uuid.UUID) (slots int) {
			for (&arrival{of: b}).admit(id) == nil {
				slots++
			}
			return slots
		}
		for range accounts {
			if slots := take(uuid.New()); slots == 0 || slots > connections*15/100 {
				t.Errorf("one of %d accounts holds %d slots", accounts, slots)
			}
		}
		const several = 10
		if slots := take(uuid.New()); slots < several {
			t.Errorf("beside %d accounts, another one has %d slots, want %d", accounts, slots, several)
		}
		if held := b.accounts.InFlight(); held > limit {
			t.Errorf("%d slots of %d are held", held, limit)
		}
	}
}

func TestBodies_AnAddressWithoutABoundIsNotCounted(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnectionsPerIP = 0
	b, err := newBodies(cfg, 100, (*ratelimit.Limiter)(nil).TrustsProxy, prometheus.NewRegistry())
	must(t, err)
	for range 1000 {
		must(t, (&arrival{of: b}).admitClient(netip.MustParseAddr("192.0.2.1")))
	}
}

// stall makes the clients of bodies look as if they had been behind for as long as the function says.
func (s *Server) stall(behind func(account uuid.UUID) time.Duration) {
	s.bodies.mu.Lock()
	defer s.bodies.mu.Unlock()
	for one := range s.bodies.admitted {
		one.mu.Lock()
		one.behind = behind(one.account)
		one.mu.Unlock()
	}
}

func TestBodies_TheOldestStalledOneMakesRoomForABody(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnections = 16
	s := behindProxy(t, cfg)
	busy, stalled := uuid.New(), uuid.New()
	var held []*client
	for range 11 {
		c := dial(t, s.Addr())
		c.send(t, post("/file", busy))
		held = append(held, c)
	}
	oldest := dial(t, s.Addr())
	oldest.send(t, post("/file", stalled))
	s.waits(t, 12)
	s.stall(func(account uuid.UUID) time.Duration { return map[uuid.UUID]time.Duration{stalled: long}[account] })
	dial(t, s.Addr()).succeeds(t, "the next body", post("/file", busy)+restOfBody)
	if got := oldest.answer(t, http.MethodPost); got.status != http.StatusBadRequest || !got.closes {
		t.Errorf("the body that was ended: %+v", got)
	}
	if !hasMetric(t, s, "mediastack_http_bodies_ended_total 1") {
		t.Error("it is not counted")
	}
	for _, c := range held {
		c.succeeds(t, "a body that is not stalled", restOfBody)
	}
	s.waits(t, 0)
}

func TestBodies_TheOldestStalledOneMakesRoomForAConnection(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnections = 2 * minConnections
	s := behindProxy(t, cfg)
	get := func() int {
		c := dial(t, s.Addr())
		c.send(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		return c.answer(t, http.MethodGet).status
	}
	accounts := map[uuid.UUID]*client{}
	for range cfg.MaxConnections { // the first body of each, over the bound of all
		id := uuid.New()
		accounts[id] = dial(t, s.Addr())
		accounts[id].send(t, post("/file", id))
	}
	s.waits(t, cfg.MaxConnections)
	if got := get(); got != http.StatusServiceUnavailable {
		t.Errorf("no body is stalled, and another connection gets %d", got)
	}
	ages, next := map[uuid.UUID]time.Duration{}, long
	for id := range accounts {
		ages[id], next = next, next+time.Hour
	}
	s.stall(func(account uuid.UUID) time.Duration { return ages[account] })
	if got := get(); got != http.StatusOK {
		t.Errorf("another connection: %d", got)
	}
	for id, c := range accounts {
		if ages[id] != next-time.Hour {
			c.succeeds(t, "one that is stalled for a shorter time", restOfBody)
			continue
		}
		if got := c.answer(t, http.MethodPost); got.status != http.StatusBadRequest || !got.closes {
			t.Errorf("the oldest one: %+v", got)
		}
	}
}

// waitFor waits until connections wait for their requests, and lets them look as if they had waited this long.
func (s *Server) waitFor(t *testing.T, connections int, age time.Duration) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d connections wait", connections), func() bool {
		s.publicListener.mu.Lock()
		defer s.publicListener.mu.Unlock()
		for e := s.publicListener.waiting.Front(); e != nil; e = e.Next() {
			e.Value.(*connection).waits = time.Now().Add(-age) //nolint:forcetypeassert // the list holds nothing else
		}
		return s.publicListener.waiting.Len() == connections
	})
}

// A client whose request had arrived, and was not read yet, once lost its connection for another one.
func TestBodies_StalledOnesEndBeforeAConnectionThatBegins(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.MaxConnections = minConnections
	s := behindProxy(t, cfg)
	stalled := dial(t, s.Addr())
	stalled.send(t, post("/file", uuid.New()))
	s.waits(t, 1)
	s.stall(func(uuid.UUID) time.Duration { return long })
	var begin []*client
	for range cfg.MaxConnections - 1 {
		begin = append(begin, dial(t, s.Addr()))
	}
	const begins = -time.Hour // they begin only now, however slow the machine is
	s.waitFor(t, len(begin), evictedAfter)
	begin = append(begin[1:], dial(t, s.Addr())) // one that has waited for long is evicted, and not a body ended
	wait.Until(t, "a connection is evicted", func() bool { return hasMetric(t, s, "mediastack_http_connections_evicted_total 1") })
	s.waitFor(t, len(begin), begins)
	begin = append(begin, dial(t, s.Addr()))
	if got := stalled.answer(t, http.MethodPost); got.status != http.StatusBadRequest || !got.closes {
		t.Errorf("the stalled body: %+v", got)
	}
	if !hasMetric(t, s, "mediastack_http_bodies_ended_total 1") || !hasMetric(t, s, "mediastack_http_connections_evicted_total 1") {
		t.Error("one body should be ended, and one connection evicted")
	}
	for _, c := range begin {
		c.succeeds(t, "a connection that began", quick)
	}
}

// A body must not be ended after its request: the connection has another one.
func TestArrival_IsNotEndedOnceItHasArrived(t *testing.T) {
	t.Parallel()
	b, err := newBodies(valid(), 100, (*ratelimit.Limiter)(nil).TrustsProxy, prometheus.NewRegistry())
	must(t, err)
	one := &arrival{of: b}
	must(t, one.admit(uuid.New()))
	must(t, one.wait(time.Now(), long))
	one.release()
	if b.endStalled() != nil || one.interrupt() || b.accounts.InFlight() != 0 {
		t.Error("a body was ended after its request")
	}
}

// What the handler does between two reads, such as waiting for the object store, is not its client's fault.
func TestArrival_IsStalledOnlyWhileAReadWaits(t *testing.T) {
	t.Parallel()
	b, err := newBodies(valid(), 100, (*ratelimit.Limiter)(nil).TrustsProxy, prometheus.NewRegistry())
	must(t, err)
	one := &arrival{of: b, control: http.NewResponseController(&deadlines{})}
	must(t, one.admit(uuid.New()))
	begun := time.Now().Add(-long)
	must(t, one.wait(begun, 0))
	must(t, one.waited(nil))
	if b.endStalled() != nil {
		t.Error("a body was ended between two reads")
	}
	must(t, one.wait(begun, 0))
	if b.endStalled() != one {
		t.Error("a body was not ended whose read waits")
	}
}

// An account that holds all it may must not end the bodies of others, which would not help it.
func TestArrival_OfAnAccountOverItsShareEndsNoOther(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.BodyPerAccountPercent = 1
	b, err := newBodies(cfg, 100, (*ratelimit.Limiter)(nil).TrustsProxy, prometheus.NewRegistry())
	must(t, err)
	busy := uuid.New()
	must(t, (&arrival{of: b}).admit(busy))
	other := &arrival{of: b, control: http.NewResponseController(&deadlines{})}
	must(t, other.admit(uuid.New()))
	must(t, other.wait(time.Now(), long))
	if err := (&arrival{of: b}).admit(busy); !fault.Is(err, fault.Busy) {
		t.Errorf("a second body of the account: %v", err)
	}
	if other.interrupted || b.accounts.InFlight() != 2 {
		t.Error("the body of another account was ended")
	}
}

// A read that begins when its body is ended must not set its own deadline over that.
func TestArrival_EndedOneReadsNoMore(t *testing.T) {
	t.Parallel()
	b, err := newBodies(valid(), 100, (*ratelimit.Limiter)(nil).TrustsProxy, prometheus.NewRegistry())
	must(t, err)
	one := &arrival{of: b, control: http.NewResponseController(&deadlines{})}
	must(t, one.admit(uuid.New()))
	must(t, one.wait(time.Now(), long))
	if b.endStalled() != one || b.accounts.InFlight() != 0 {
		t.Fatal("the body was not ended")
	}
	if err := one.waited(os.ErrDeadlineExceeded); !errors.Is(err, errEnded) {
		t.Errorf("the read that waits: %v", err)
	}
	if err := one.wait(time.Now(), 0); !errors.Is(err, errEnded) {
		t.Errorf("the next read: %v", err)
	}
}

// A body of a few bytes once had the time of a file.
func TestDocument_HasATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.JSONBodyTimeout = minJSONBodyTimeout
	s := behindProxy(t, cfg)
	file, document := dial(t, s.Addr()), dial(t, s.Addr())
	file.send(t, post("/file", uuid.New()))
	document.send(t, post("/document", uuid.New()))
	if got := document.answer(t, http.MethodPost); got.status != http.StatusBadRequest || !got.closes {
		t.Errorf("a document: %+v", got)
	}
	file.succeeds(t, "a file", restOfBody)
}

func TestDocumentTime_IsThatOfItsBytes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	d := documentTime{timeout: 10 * time.Second}
	remaining := func() time.Duration {
		end, limited := d.end(now)
		if !limited {
			return -1
		}
		return end.Sub(now)
	}
	if remaining() != -1 {
		t.Error("a file has the time of a document")
	}
	d.on = true
	for _, step := range []struct {
		n      int
		waited time.Duration
		want   time.Duration
	}{
		{0, 0, 10 * time.Second},
		{1, 4 * time.Second, 6 * time.Second}, // one byte a second extends nothing
		{documentStep - 2, 5 * time.Second, time.Second},
		{1, 0, 11 * time.Second}, // the next 64 KiB have as much again
		{100, 12 * time.Second, -time.Second},
	} {
		d.record(step.n, step.waited)
		if got := remaining(); got != step.want {
			t.Errorf("after %d bytes in %s: %s, want %s", d.read, d.waited, got, step.want)
		}
	}
	d.on = false
	d.record(1<<20, time.Hour) // a file within the document
	d.on = true
	if got := remaining(); got != -time.Second {
		t.Errorf("after a file: %s", got)
	}
	if d.timeout = 0; remaining() != -1 {
		t.Error("0 is a limit")
	}
}
