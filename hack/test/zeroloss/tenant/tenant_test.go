package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answers makes a client of a server that answers the n-th request, from 1, with handle.
func answers(t *testing.T, handle func(n int64, w http.ResponseWriter, r *http.Request)) *Tenant {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(n.Add(1), w, r) }))
	t.Cleanup(server.Close)
	return newTenant(Config{BaseURL: server.URL, MCPURL: server.URL + "/mcp", Key: "key", Rate: 1000, Retry: time.Millisecond, Wait: 3 * time.Second})
}

// abort ends a connection without an answer.
func abort() { panic(http.ErrAbortHandler) }

func TestRequest_IsSentAsACorrectClientDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle                  func(n int64, w http.ResponseWriter)
		retried, waited, failed int
	}{
		"an answer":                        {handle: func(int64, http.ResponseWriter) {}},
		"a broken connection, once":        {handle: func(n int64, _ http.ResponseWriter) { breakUntil(n, 1) }, retried: 1},
		"a broken connection, twice":       {handle: func(n int64, _ http.ResponseWriter) { breakUntil(n, 2) }, retried: 1, failed: 1},
		"503 with Retry-After":             {handle: func(n int64, w http.ResponseWriter) { unavailable(w, n, "1") }, waited: 1},
		"503 without Retry-After":          {handle: func(n int64, w http.ResponseWriter) { unavailable(w, n, "") }, failed: 1},
		"Retry-After after the time limit": {handle: func(n int64, w http.ResponseWriter) { unavailable(w, n, "60") }, waited: 1, failed: 1},
		"500":                              {handle: func(_ int64, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, failed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := answers(t, func(n int64, w http.ResponseWriter, _ *http.Request) { c.handle(n, w) })
			_, err := client.do(t.Context(), request{method: http.MethodPost, url: client.config.BaseURL, want: http.StatusOK})
			if (err != nil) != (c.failed > 0) {
				t.Errorf("the request: %v", err)
			}
			got := client.ledger.next().Result
			if got.Sent != 1 || got.Retried != c.retried || got.Waited != c.waited || got.Failed != c.failed {
				t.Errorf("it is counted as %+v", got)
			}
		})
	}
}

// A request of which nothing was sent is safe to send again, so a client tries to connect more often than it repeats a request.
func TestRequest_ConnectsThreeTimes(t *testing.T) {
	t.Parallel()
	client := answers(t, func(int64, http.ResponseWriter, *http.Request) {})
	var dials atomic.Int64
	for _, each := range []*http.Client{client.kept, client.fresh} {
		each.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) < 3 {
				return nil, &net.OpError{Op: "dial", Err: errors.New("no route")}
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	ask := request{method: http.MethodPost, url: client.config.BaseURL, want: http.StatusOK}
	if _, err := client.do(t.Context(), ask); err != nil {
		t.Errorf("a request whose third attempt connects: %v", err)
	}
	client.kept.CloseIdleConnections()
	dials.Store(-10)
	begun := time.Now()
	if _, err := client.do(t.Context(), ask); err == nil || dials.Load() != -7 {
		t.Errorf("a request that never connects ends after %d attempts: %v", dials.Load()+10, err)
	}
	got := client.ledger.next().Result
	if got.Sent != 2 || got.Retried != 2 || got.Failed != 1 || len(got.FailedBegan) != 1 || got.FailedBegan[0].Before(begun) {
		t.Errorf("they are counted as %+v", got)
	}
}

func breakUntil(n, last int64) {
	if n <= last {
		abort()
	}
}

func unavailable(w http.ResponseWriter, n int64, retryAfter string) {
	if n == 1 {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// A delete whose answer was lost is answered 404 when it is sent again; one that was not sent before fails.
func TestDelete_OfWhatIsGoneSucceedsOnlyWhenRepeated(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{true, false} {
		client := answers(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
			if lost && n == 1 {
				abort()
			}
			w.WriteHeader(http.StatusNotFound)
		})
		_, err := client.do(t.Context(), request{method: http.MethodDelete, url: client.config.BaseURL, want: http.StatusOK, repeated: http.StatusNotFound})
		if (err == nil) != lost {
			t.Errorf("the answer was lost: %v, the delete: %v", lost, err)
		}
	}
}

// The connection breaks in the second part, of which the service keeps some bytes.
func TestResumableUpload_GoesOnAtTheOffsetOfTheService(t *testing.T) {
	t.Parallel()
	const kept = tusFile/2 + 7
	var stored []byte
	client := answers(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodPost && n == 1:
			w.Header().Set("Location", "http://"+r.Host+"/media/create/resumable/1")
			w.WriteHeader(http.StatusCreated)
		case r.Method == http.MethodPatch && n == 3:
			stored = append(stored, body[:7]...)
			abort()
		case r.Method == http.MethodPatch:
			stored = append(stored, body...)
			w.WriteHeader(http.StatusNoContent)
		case r.Method == http.MethodHead:
			w.Header().Set("Upload-Offset", "30007")
		case strings.HasPrefix(r.URL.Path, "/media/file/"):
			_, _ = w.Write(stored)
		default:
			_ = json.NewEncoder(w).Encode(document{MediaID: "1", File: "http://" + r.Host + "/media/file/1"})
		}
	})
	if err := client.resumable(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := client.ledger.next()
	if got.Failed > 0 || got.Retried != 1 || len(stored) != tusFile || kept != 30007 {
		t.Errorf("%+v with %d bytes", got.Result, len(stored))
	}
	if items := client.ledger.of(got); len(items) != 1 || items[0].state != sealed {
		t.Errorf("the phase has the items %+v", items)
	}
}

// The service has lost one acknowledged item, and answers another one with other bytes.
func TestComparison_FindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	files := map[string]string{"whole": "whole", "damaged": "other"}
	var client *Tenant
	var racing *item
	client = answers(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		content, there := files[id]
		if id == "racing" { // its story deletes it now
			client.ledger.set(racing, deleted)
		}
		switch {
		case !there:
			w.WriteHeader(http.StatusNotFound)
		case strings.HasPrefix(r.URL.Path, "/media/file/"):
			_, _ = io.WriteString(w, content)
		default:
			_ = json.NewEncoder(w).Encode(document{MediaID: id, File: "http://" + r.Host + "/media/file/" + id})
		}
	})
	for _, id := range []string{"whole", "damaged", "lost"} {
		client.ledger.add(id, []byte(id), client.ledger.now)
	}
	racing = client.ledger.add("racing", nil, client.ledger.now)
	client.ledger.set(client.ledger.add("gone", nil, client.ledger.now), deleted)
	result := client.finish(context.WithoutCancel(t.Context()))
	if result.Verified != 1 || result.VerifiedBytes != 5 || result.Missing != 2 || result.MissingBytes != 11 || len(result.Problems) != 2 {
		t.Errorf("%+v", result)
	}
}
