package tus_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"mediastack.dev/hack/testenv/wait"
)

// tusd interrupts a request by a deadline in the past. It once stayed on the connection, and
// the next request on that connection failed.
func TestConnection_ServesTheNextRequestAfterAFailedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	finishing, finish := make(chan struct{}), make(chan struct{})
	hooked := &hookedStore{Store: w.Store.Uploads, before: sync.OnceFunc(func() { close(finishing); <-finish })}
	here, there := w.replica(t, func(o *options) { o.Uploads = hooked }), w.replica(t)
	here.Client.Transport.(*http.Transport).MaxConnsPerHost = 1
	file := noise(1000)

	// The whole body was received, and another request waits for the lock while it is finished.
	address := here.created(t, one.Key, len(file))
	first := make(chan answer, 1)
	go func() {
		got, err := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), chunk(file))
		if err != nil {
			t.Error(err)
		}
		first <- got
	}()
	<-finishing
	asked := make(chan answer, 1)
	go func() {
		got, err := there.try(t.Context(), http.MethodHead, address, key(one.Key))
		if err != nil {
			t.Error(err)
		}
		asked <- got
	}()
	wait.Until(t, "the other replica waits", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_notify%' AND datname = current_database() AND pid <> pg_backend_pid()`) > 0
	})
	close(finish)
	if got := <-first; got.Status != http.StatusNoContent || !w.promised(t, got, address, len(file)) {
		t.Errorf("a request whose body was complete: %d %v %s", got.Status, got.Header, got.Body)
	}
	if got := <-asked; !w.promised(t, got, address, len(file)) {
		t.Errorf("HEAD: %d %v", got.Status, got.Header)
	}
	reused := false
	traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
	for range 3 {
		if got, err := here.try(traced, http.MethodHead, address, key(one.Key)); err != nil || got.Status != http.StatusOK || !reused {
			t.Errorf("the next request: %d %v, reused: %t", got.Status, err, reused)
		}
	}

	// Half of the body was received when another request takes the upload over.
	address = here.created(t, one.Key, len(file))
	body := &stalling{file: file[:500], stalled: make(chan struct{}), resume: make(chan struct{})}
	go func() {
		got, _ := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(io.MultiReader(body)))
		first <- got
	}()
	<-body.stalled
	var got answer
	wait.Until(t, "the request is interrupted", func() bool { // it may not have started at the first HEAD
		if n := there.offset(t, one.Key, address); n > 500 {
			t.Errorf("%d bytes", n)
		}
		select {
		case got = <-first:
			return true
		default:
			return false
		}
	})
	close(body.resume)
	if got.Status != http.StatusLocked || got.Header.Get("Retry-After") == "" {
		t.Errorf("the interrupted request: %d %v", got.Status, got.Header)
	}
	for range 3 {
		if got, err := here.try(t.Context(), http.MethodHead, address, key(one.Key)); err != nil || got.Status != http.StatusOK {
			t.Errorf("the next request: %d %v", got.Status, err)
		}
	}
	here.complete(t, one.Key, address, file)
	w.purged(t, one)
}

// A client that stalls for too long gets an error response that says so, and can resume the
// upload.
func TestStalledPatch_CanBeResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *options) { o.Server.StallTimeout = 5 * time.Second }) // far more than the first bytes need
	file := noise(1000)
	address := rt.created(t, one.Key, len(file))
	body := &stalling{file: file[:500], stalled: make(chan struct{}), resume: make(chan struct{})}
	defer close(body.resume)
	got := rt.do(t, http.MethodPatch, address, key(one.Key), at(0), stream(body))
	if got.Status != http.StatusServiceUnavailable || got.Header.Get("Upload-Offset") != "" {
		t.Errorf("PATCH: %d %v %s", got.Status, got.Header, got.Body)
	}
	// The client was slow: the log and the metrics have no failure of the service.
	wait.Until(t, "the request is in the log", func() bool {
		return strings.Contains(rt.Logs.String(), `"status":408`)
	})
	for line := range strings.Lines(rt.Logs.String()) {
		if strings.Contains(line, `"status":408`) && (!strings.Contains(line, `"level":"INFO"`) || !strings.Contains(line, `"sent_status":503`)) || strings.Contains(line, `"status":503`) {
			t.Errorf("the log has %s", line)
		}
	}
	if n := rt.requests(t, "408"); n != 1 || rt.requests(t, "503") != 0 {
		t.Errorf("the metrics have %g requests of 408, and %g of 503", n, rt.requests(t, "503"))
	}
	if n := rt.offset(t, one.Key, address); n != 500 {
		t.Errorf("%d bytes were received", n)
	}
	rt.complete(t, one.Key, address, file)
	w.purged(t, one)
}

// requests returns how many requests the metrics have of a code.
func (rt *replica) requests(t *testing.T, code string) (sum float64) {
	t.Helper()
	families, err := rt.Registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "mediastack_http_requests_total" && slices.ContainsFunc(metric.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "code" && l.GetValue() == code }) {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// A replica that drains interrupts its uploads, and their clients continue at another one.
func TestDrain_ReleasesRunningUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	file := noise(20 << 20)
	address := here.created(t, one.Key, len(file))
	body := &stalling{file: file[:18<<20], stalled: make(chan struct{}), resume: make(chan struct{})}
	patched := make(chan answer, 1)
	go func() {
		got, _ := here.try(t.Context(), http.MethodPatch, address, key(one.Key), at(0), stream(body))
		patched <- got
	}()
	<-body.stalled
	here.TUS.Drain()
	if got := <-patched; got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" { // a tus client does not retry after 4xx
		t.Errorf("PATCH: %d %v %s", got.Status, got.Header, got.Body)
	}
	close(body.resume)
	if n := there.offset(t, one.Key, address); n == 0 || n > 18<<20 {
		t.Errorf("%d bytes were received", n)
	}
	there.complete(t, one.Key, address, file)
	w.purged(t, one)
}

// A stalled connection once held the memory that others waited for. It is interrupted, and
// what was received is kept.
func TestPatch_BelowTheMinimumRateKeepsWhatArrived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, quick := w.tenant(t, "slow"), w.tenant(t, "quick")
	rt := w.replica(t, func(o *options) {
		o.Upload.UploadMemory, o.Upload.UploadMinTransferRate = 17<<20, 64<<10
	})
	file := noise(20 << 20)
	address := rt.created(t, slow.Key, len(file))
	body := &stalling{file: file[:15<<20], stalled: make(chan struct{}), resume: make(chan struct{})}
	patched := make(chan answer, 1)
	go func() {
		got, _ := rt.try(t.Context(), http.MethodPatch, address, key(slow.Key), at(0), stream(body))
		patched <- got
	}()
	<-body.stalled
	other := noise(2 << 20)
	rt.complete(t, quick.Key, rt.created(t, quick.Key, len(other)), other)
	if got := <-patched; got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" { // a tus client does not retry after 4xx
		t.Errorf("PATCH: %d %v %s", got.Status, got.Header, got.Body)
	}
	close(body.resume)
	if n := rt.offset(t, slow.Key, address); n < 5<<20 || n > 15<<20 {
		t.Errorf("%d bytes were received", n)
	}
	rt.complete(t, slow.Key, address, file)
	w.purged(t, slow)
}
