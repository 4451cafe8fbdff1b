//go:build cluster

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/wait"
)

const requestTimeout = 30 * time.Second

// through returns a transport that connects to an address, whatever host the URL names.
func through(address string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		MaxIdleConnsPerHost: 8,
	}
}

// retrying sends a request once more when the connection failed, as a correct client does: a
// connection that was kept may have been closed while the request was on its way.
type retrying struct{ next *http.Transport }

// RoundTrip implements http.RoundTripper.
func (r retrying) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil || request.Context().Err() != nil {
		return response, err
	}
	again := request.Clone(request.Context())
	if request.GetBody != nil {
		body, bodyErr := request.GetBody()
		if bodyErr != nil {
			return nil, errors.Join(err, bodyErr)
		}
		again.Body = body
	}
	return r.next.RoundTrip(again)
}

// fresh returns the client with a connection for each request, and without a second try: it sees
// when a pod is asked that accepts no connection.
func (c client) fresh() client {
	transport := c.http.Transport.(retrying).next.Clone()
	transport.DisableKeepAlives = true
	c.http = &http.Client{Transport: transport, Timeout: requestTimeout}
	return c
}

// load is what clients do at the same time as the admin.
type load struct {
	mu       sync.Mutex
	requests int
	failures []error
	uploaded map[string][]byte
}

// begin starts two clients that keep connections and two that do not, which upload,
// seal, list and fetch until the returned function is called. It waits for the requests that are under way.
func (l *load) begin(ctx context.Context, c client) (end func()) {
	l.uploaded = map[string][]byte{}
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for _, one := range []client{c, c, c.fresh(), c.fresh()} {
		clients.Go(func() {
			pause := time.NewTicker(100 * time.Millisecond) //nolint:forbidigo // the pace of the load
			defer pause.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-pause.C:
					l.round(context.WithoutCancel(ctx), one)
				}
			}
		})
	}
	return func() { cancel(); clients.Wait() }
}

// round makes an item, seals it, and reads it.
func (l *load) round(ctx context.Context, c client) {
	data := randomBytes(20_000)
	draft, err := c.upload(ctx, "load.bin", data)
	if l.count(err) {
		l.mu.Lock()
		l.uploaded[draft.MediaID] = data
		l.mu.Unlock()
		_, err := c.seal(ctx, draft.MediaID)
		l.count(err)
		l.count(c.has(ctx, draft, data))
	}
	_, _, err = c.send(ctx, http.StatusOK, http.MethodGet, c.url+"/media/get?limit=10", nil)
	l.count(err)
}

func (l *load) count(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	if err != nil {
		l.failures = append(l.failures, err)
	}
	return err == nil
}

func (l *load) sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

func TestRollingUpdate_LosesNoRequest(t *testing.T) {
	install(t)
	c := outside(t, "node1")
	var l load
	end := l.begin(t.Context(), c)
	defer end()
	wait.UntilNone(t, func() string {
		if l.sent() > 20 {
			return ""
		}
		return "the clients are at work"
	})
	before := kubectl(t, "-n", namespace, "get", "pods", "--selector=app.kubernetes.io/component=runtime", "--output=name")
	for _, deployment := range []string{"mediastack-runtime", "mediastack-operator"} {
		kubectl(t, "-n", namespace, "rollout", "restart", "deployment/"+deployment)
	}
	for _, deployment := range []string{"mediastack-runtime", "mediastack-operator"} {
		kubectl(t, "-n", namespace, "rollout", "status", "--timeout=3m", "deployment/"+deployment)
	}
	// Until the old pods are gone.
	kubectl(t, append([]string{"-n", namespace, "wait", "--for=delete", "--timeout=2m"}, strings.Fields(before)...)...)
	end()
	if len(l.failures) > 0 {
		t.Errorf("%d of %d requests failed, the first: %v", len(l.failures), l.requests, l.failures[0])
	}
	missing := 0
	for id, data := range l.uploaded {
		found, err := c.document(t.Context(), http.StatusOK, http.MethodGet, "/media/get/"+id, nil)
		if err != nil || c.has(t.Context(), found, data) != nil {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d uploads are missing", missing, len(l.uploaded))
	}
	t.Logf("%d requests, %d failed; %d uploads, %d missing", l.requests, len(l.failures), len(l.uploaded), missing)
}

func TestPurge_RemovesAgedDraft(t *testing.T) {
	install(t)
	c := outside(t, "node2")
	aged, err := c.upload(t.Context(), "aged.bin", randomBytes(1000))
	must(t, err)
	fresh, err := c.upload(t.Context(), "fresh.bin", randomBytes(1000))
	must(t, err)
	makeOlder(t, aged.MediaID, 25*time.Hour)
	// The CronJob is due each minute.
	wait.UntilNoneWithin(t, 2*time.Minute, func() string {
		_, _, err := c.send(t.Context(), http.StatusNotFound, http.MethodGet, c.url+"/media/get/"+aged.MediaID, nil)
		if err != nil {
			return "the draft of yesterday is purged"
		}
		return ""
	})
	if _, _, err := c.send(t.Context(), http.StatusOK, http.MethodGet, fresh.File, nil); err != nil {
		t.Errorf("the fresh draft: %v", err)
	}
	wait.UntilNone(t, func() string {
		succeeded := kubectl(t, "-n", namespace, "get", "jobs", "--output=jsonpath={.items[?(@.status.succeeded==1)].metadata.ownerReferences[0].name}")
		for _, owner := range strings.Fields(succeeded) {
			if owner == "mediastack-purge" {
				return ""
			}
		}
		return "a job of the CronJob succeeds"
	})
}

// makeOlder moves the time at which a draft was made into the past.
func makeOlder(t *testing.T, id string, by time.Duration) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), env.DatabaseURL)
	must(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	tag, err := conn.Exec(t.Context(), fmt.Sprintf("UPDATE item SET created_at = created_at - interval '%d seconds' WHERE id = $1", int(by.Seconds())), id)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("make the draft older: %v, %d rows", err, tag.RowsAffected())
	}
}
