package upgrade

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	mediastack "mediastack.dev/clients/go"
	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
)

// waves is the clock of clients that wait between two attempts. It moves by whole seconds, and only when every
// client waits or is done: those whose time has come then send at the same instant, which is harder for a
// service than what clients with clocks of their own do.
type waves struct {
	mu      sync.Mutex
	now     time.Duration
	running int // clients that do not wait
	waiting []waiter
}

type waiter struct {
	due   time.Duration
	ready chan struct{}
}

// Wait is mediastack.Retry.Wait.
func (w *waves) Wait(ctx context.Context, delay time.Duration) error {
	one := waiter{ready: make(chan struct{})}
	w.mu.Lock()
	one.due = w.now + delay
	w.waiting = append(w.waiting, one)
	w.running--
	w.mu.Unlock()
	select {
	case <-one.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *waves) add(clients int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += clients
}

// next returns when the next wave begins, in whole seconds, once no client runs. It returns false if none waits.
func (w *waves) next(t *testing.T) (second time.Duration, ok bool) {
	t.Helper()
	wait.Until(t, "every client has its answer", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.running == 0
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return 0, false
	}
	first := slices.MinFunc(w.waiting, func(a, b waiter) int { return cmp.Compare(a.due, b.due) })
	return time.Duration(math.Ceil(first.due.Seconds())) * time.Second, true
}

// begin moves the clock to a second, and returns how many clients send again.
func (w *waves) begin(second time.Duration) (size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = second
	w.waiting = slices.DeleteFunc(w.waiting, func(one waiter) bool {
		if one.due > second {
			return false
		}
		close(one.ready)
		size++
		return true
	})
	w.running += size
	return size
}

// counting counts the answers by their status.
type counting struct {
	http.RoundTripper
	mu       sync.Mutex
	statuses map[int]int
}

// RoundTrip sends a request.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.statuses[0]++
		return nil, err
	}
	c.statuses[response.StatusCode]++
	return response, nil
}

// since returns what was answered since the last call.
func (c *counting) since() map[int]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := maps.Clone(c.statuses)
	clear(c.statuses)
	return answered
}

// All clients that an absence sent away once came back in the same second, and the first replica answered most of them 429.
func TestAbsence_ClientsThatComeBackMeetNoLimit(t *testing.T) {
	t.Parallel()
	const (
		clients = 400             // of one account and one address, within SERVICE_MAX_CONNECTIONS_PER_IP
		returns = 7 * time.Second // a third of the clients asked twice by then
	)
	server, front, dir := testenv.PostgresServer(t), newFront(t), testenv.TempDir(t)
	database, access := testenv.Database(t, server), testenv.S3(t)
	tenants, err := provision.Accounts(t.Context(), database, access, account.Spec{Namespace: "absence", Name: "demo", MaxStorage: 1 << 40, MaxUploadSize: 1 << 30})
	must(t, err)
	secret := servers.RandomSecret(32)
	start := func(name string) *testenv.RuntimeProcess { // with the limits that are the defaults
		return testenv.Runtime(t, testenv.RuntimeConfig{Name: name, LogDir: dir, BaseURL: front.URL, Secret: secret, Stores: testenv.StoreSettings(database, access)})
	}
	former := []*testenv.RuntimeProcess{start("runtime 1"), start("runtime 2")}
	for _, one := range former {
		front.add(one.Addr)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(transport.CloseIdleConnections)
	answers, clock := &counting{RoundTripper: transport, statuses: map[int]int{}}, &waves{}
	client, err := mediastack.New(front.URL, mediastack.APIKey(tenants[0].APIKey), mediastack.Options{HTTPClient: &http.Client{Transport: answers}, Retry: mediastack.Retry{Wait: clock.Wait}})
	must(t, err)
	upload := func() error {
		_, err := client.Upload(t.Context(), bytes.NewReader(content()), mediastack.UploadOptions{Seal: true})
		return err
	}
	clock.add(1)
	must(t, upload()) // what a replica makes once
	clock.add(-1)
	answers.since()

	server.Stop()
	for _, one := range former {
		wait.Until(t, "a replica notices that the database is away", func() bool { return one.Spec.Ready(t.Context()) != nil })
	}
	failures := make(chan error, clients)
	clock.add(clients)
	for range clients {
		go func() {
			err := upload()
			if err != nil {
				failures <- err
			}
			clock.add(-1)
		}()
	}
	away := true
	for {
		second, waits := clock.next(t)
		answered := answers.since()
		t.Logf("%4s: answered %v", clock.now, answered)
		if !away && answered[http.StatusTooManyRequests] > 0 {
			t.Errorf("%d clients that came back were answered 429", answered[http.StatusTooManyRequests])
		}
		if !waits {
			break
		}
		if away && second >= returns {
			away = false
			server.Start()
			replica := start("runtime 3")
			front.add(replica.Addr)
			for _, one := range former {
				front.remove(one.Addr)
				one.Stop()
			}
		}
		t.Logf("%4s: %d clients send, the service is away: %t", second, clock.begin(second), away)
	}
	if away {
		t.Error("no client came back")
	}
	close(failures)
	failed := 0
	for err := range failures {
		if failed++; failed <= 3 {
			t.Error(fmt.Errorf("a client gave up: %w", err))
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d clients gave up", failed, clients)
	}
}
