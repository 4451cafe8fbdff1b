package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
)

// size is how large the test is.
type size struct {
	connections int // of the runtime
	clients     int // of an attack: more than the runtime has connections
	perIP       int
	pace        int // connections that an attack opens first, per second
	again       int // those that it opens again; 68 a second once took all connections of a replica
	upload      int // those of uploads that it opens again: each has rows in the database
	probes      int // rounds of probes during an attack
	uploads     int // of one account, at once
	many        int // accounts that attack together
	slots       int // SERVICE_MAX_UPLOADS where many accounts attack
}

// bodyPercent is the default of SERVICE_BODY_PER_ACCOUNT_PERCENT.
const bodyPercent = 15

// fullEnv is the variable that makes the test as large as a replica is by default.
const fullEnv = "MEDIASTACK_TEST_FULL"

func sizeOf(t *testing.T) size {
	t.Helper()
	if full, _ := strconv.ParseBool(os.Getenv(fullEnv)); full {
		return size{connections: 4096, clients: 4300, perIP: 512, pace: 500, again: 250, upload: 100, probes: 40, uploads: 500, many: 10, slots: 128}
	}
	return size{connections: 240, clients: 300, perIP: 30, pace: 1000, again: 100, upload: 100, probes: 2, uploads: 100, many: 5, slots: 64}
}

// Behind a proxy, one key once held all connections of a replica with bodies that did not come.
func TestBodies_ThatDoNotComeLeaveRoomForOthers(t *testing.T) {
	n := sizeOf(t)
	// Uploads have slots with a minimum rate of their own, below which an upload is ended while others wait.
	s := newSite(t, n.many+1, n.clients, "SERVICE_UPLOAD_MIN_TRANSFER_RATE=0", fmt.Sprintf("SERVICE_MAX_CONNECTIONS=%d", n.connections), fmt.Sprintf("SERVICE_MAX_CONNECTIONS_PER_IP=%d", n.perIP))
	perAccount := n.connections * bodyPercent / 100
	one, three := []string{s.tenants[0].APIKey}, s.keys(3)
	all := n.connections * 75 / 100 // what all accounts may hold
	accounts, many := s.accounts(3), s.accounts(n.many)
	other := newProber(t, s.plain, s.tenants[n.many].APIKey, 1)
	other.probe(2) // what is made once
	steady := beginSteady(t, s, other.key)
	before := s.memory()

	type round struct {
		kind      string
		who       string
		keys      []string
		addresses int
		held      int // bodies that the attack must reach; 0 = uploads are bounded below it
		most      int
		address   string
	}
	const manyAddresses = 100
	var rounds []round
	for _, kind := range []string{"rest", "batch", "mcp", "tus", "form"} {
		for who, keys := range map[string][]string{"one key": one, "three keys of one account": three, "three accounts": accounts} {
			r := round{kind: kind, who: who, keys: keys, addresses: manyAddresses, held: perAccount, most: perAccount, address: s.plain}
			if who == "three accounts" {
				r.held, r.most = 3*perAccount, 3*perAccount
			}
			if kind == "batch" || kind == "tus" || kind == "form" { // SERVICE_MAX_BATCHES, SERVICE_MAX_UPLOADS
				r.held = 0
			}
			rounds = append(rounds, r)
		}
		r := round{kind: kind, who: "many accounts", keys: many, addresses: manyAddresses, held: 3 * perAccount, most: all, address: s.plain}
		switch kind {
		case "batch":
			continue // SERVICE_MAX_BATCHES is less than so many accounts may hold
		case "tus", "form":
			r.held = 0
		}
		rounds = append(rounds, r)
	}
	rounds = append(rounds,
		round{kind: "rest", who: "one address", keys: accounts, addresses: 1, held: n.perIP, most: n.perIP, address: s.plain},
		round{kind: "rest", who: "no address forwarded", keys: one, addresses: 1, held: perAccount, most: perAccount, address: s.nameless},
		round{kind: "chunked", who: "one key", keys: one, addresses: manyAddresses, held: perAccount, most: perAccount, address: s.plain},
		round{kind: "expect", who: "one key", keys: one, addresses: manyAddresses, held: perAccount, most: perAccount, address: s.plain},
	)
	for _, r := range rounds {
		t.Run(r.kind+" of "+r.who, func(t *testing.T) {
			a := &attack{address: r.address, host: s.plain, request: withholding[r.kind], keys: r.keys, addresses: r.addresses, connect: n.pace, again: n.again}
			if r.kind == "tus" || r.kind == "form" {
				a.again = n.upload
			}
			a.begin(t.Context(), n.clients)
			defer a.end()
			wait.Until(t, "every client has tried", func() bool { return a.tried() >= n.clients })
			held := func() int { return int(s.metric("mediastack_http_bodies_in_flight")) - steady.running() }
			if r.held > 0 {
				wait.Until(t, fmt.Sprintf("%d bodies are held", r.held), func() bool { return held() >= r.held })
			}
			took := (&prober{t: t, base: other.base, key: other.key, client: other.client}).probe(n.probes)
			if now := held(); now > r.most+1 {
				t.Errorf("%d bodies are held, at most %d may be", now, r.most)
			}
			t.Logf("%d connections open, %d bodies held (bound %d), probes %s, answers to the attack: %s",
				int(s.metric("mediastack_http_connections_open")), held(), r.most, took, a.summary())
			// 408 would be the proxy's.
			if other := a.other("400", "429", "503"); len(other) > 0 {
				t.Errorf("the attack was answered %q", other)
			}
		})
		s.idle(1)
	}
	t.Run("streams of HTTP/2", func(t *testing.T) {
		a := &multiplexed{}
		a.begin(t, s, n.clients)
		defer a.end()
		wait.Until(t, "the streams are held", func() bool { return s.metric("mediastack_http_bodies_in_flight") >= float64(min(perAccount, n.perIP)) })
		took := (&prober{t: t, base: other.base, key: other.key, client: other.client}).probe(n.probes)
		t.Logf("%d bodies held, probes %s", int(s.metric("mediastack_http_bodies_in_flight")), took)
	})
	s.idle(1)
	steady.finish(t)
	s.idle(0)
	var after memory
	// What a round leaves behind would be many times as much after all of them.
	wait.UntilNone(t, func() string {
		after = s.memory()
		if after.heap > 1.5*before.heap+4*(1<<20) || after.goroutines > before.goroutines+20 {
			return fmt.Sprintf("the runtime had %+v before the rounds, and has %+v", before, after)
		}
		return ""
	})
	t.Logf("%d rounds: %.1f MiB and %.0f goroutines before, %.1f MiB and %.0f after", len(rounds)+1, before.heap/(1<<20), before.goroutines, after.heap/(1<<20), after.goroutines)
}

// A few accounts with slow clients once held all slots for uploads, and an upload of another one waited until one
// of them was ended.
func TestUploads_OfManyAccountsLeaveSlotsForOthers(t *testing.T) {
	n := sizeOf(t)
	const long = "24h" // nothing is ended by its time, so what waits for a slot waits until the test fails
	s := newSite(t, n.many+1, n.clients, fmt.Sprintf("SERVICE_MAX_CONNECTIONS=%d", n.connections), fmt.Sprintf("SERVICE_MAX_UPLOADS=%d", n.slots),
		"SERVICE_UPLOAD_MIN_TRANSFER_RATE=0", "SERVICE_UPLOAD_QUEUE_TIMEOUT="+long, "SERVICE_STALL_TIMEOUT="+long, "SERVICE_MIN_TRANSFER_RATE=0")
	other := newProber(t, s.plain, s.tenants[n.many].APIKey, 1)
	other.probe(1)
	// The accounts begin one after the other: the first ones hold all that one account may, the others take what is left.
	var keys []string
	for i := range n.clients {
		keys = append(keys, s.tenants[i*n.many/n.clients].APIKey)
	}
	for _, kind := range []string{"tus", "form"} {
		t.Run(kind, func(t *testing.T) {
			a := &attack{address: s.plain, host: s.plain, request: withholding[kind], keys: keys, addresses: 100, connect: n.upload, again: n.upload}
			a.begin(t.Context(), n.clients)
			defer a.end()
			reserve := n.slots / 4
			uploads := func() int { return int(s.metric("mediastack_uploads_in_flight")) }
			wait.Until(t, "every client has tried", func() bool { return a.tried() >= n.clients })
			if held := uploads(); held <= n.slots-reserve || s.metric("mediastack_uploads_waiting") == 0 {
				t.Fatalf("%d uploads hold a slot: the attack fills nothing", held)
			}
			slow := beginSteady(t, s, other.key)
			took := (&prober{t: t, base: other.base, key: other.key, client: other.client}).probe(n.probes)
			if held := uploads(); held > n.slots {
				t.Errorf("%d uploads hold a slot of %d", held, n.slots)
			}
			slow.finish(t)
			t.Logf("%d accounts hold %d upload slots of %d, %d wait, probes %s, answers to the attack: %s", n.many, uploads(), n.slots, int(s.metric("mediastack_uploads_waiting")), took, a.summary())
		})
		s.idle(0)
	}
}

// steady is an honest upload over a slow network: 2 KiB a second, above the minimum rate.
type steady struct {
	sent   *io.PipeWriter
	finish func(t *testing.T)
	ended  chan struct{}
}

func (u *steady) running() int {
	select {
	case <-u.ended:
		return 0
	default:
		return 1
	}
}

const (
	steadyBytes = 8 << 20
	steadyStep  = 1 << 10
)

func beginSteady(t *testing.T, s *site, key string) *steady {
	t.Helper()
	p := newProber(t, s.plain, key, 2)
	status, header := p.send(http.MethodPost, "/media/create/resumable", "", "Tus-Resumable", "1.0.0", "Upload-Length", strconv.Itoa(steadyBytes))
	if status != http.StatusCreated {
		t.Fatalf("the upload was answered %d", status)
	}
	body, sent := io.Pipe()
	u := &steady{sent: sent, ended: make(chan struct{})}
	var response *http.Response
	var failed error
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, header.Get("Location"), body)
	must(t, err)
	r.ContentLength = steadyBytes
	for name, value := range map[string]string{"X-Service-Apikey": key, "Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"} {
		r.Header.Set(name, value)
	}
	client := &http.Client{Transport: p.client.Transport} // without a timeout
	go func() {
		defer close(u.ended)
		if response, failed = client.Do(r); failed == nil { //nolint:bodyclose // finish does
			return
		}
		_ = body.CloseWithError(failed)
	}()
	rest := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(steadyStep * time.Second / 2048) //nolint:forbidigo // the pace of a slow network
		defer tick.Stop()
		left, part := steadyBytes, make([]byte, steadyStep)
		for fast := false; left > 0; left -= len(part) {
			if !fast {
				select {
				case <-tick.C:
				case <-rest:
					fast = true
				}
			}
			if _, err := sent.Write(part); err != nil {
				return
			}
		}
		_ = sent.Close()
	})
	u.finish = func(t *testing.T) {
		t.Helper()
		close(rest)
		group.Wait()
		wait.Receive(t, "the slow upload ends", u.ended)
		if failed != nil {
			t.Fatalf("the slow upload was ended: %v", failed)
		}
		defer func() { _ = response.Body.Close() }()
		if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusNoContent {
			t.Errorf("the slow upload was answered %d %s", response.StatusCode, text)
		}
	}
	return u
}

// Of many uploads of one account at once, those over a bound get a clear answer.
func TestUploads_OfOneAccountGetClearAnswers(t *testing.T) {
	n := sizeOf(t)
	s := newSite(t, 1, n.uploads, fmt.Sprintf("SERVICE_MAX_CONNECTIONS=%d", n.connections))
	file := strings.Repeat("x", 128<<10)
	body := strings.Replace(form, "a text", file, 1)
	statuses := make(chan string, n.uploads)
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range n.uploads {
		p := newProber(t, s.plain, s.tenants[0].APIKey, byte(1+i%100))
		group.Go(func() {
			// One half of the file comes when all have begun.
			reader := io.MultiReader(strings.NewReader(body[:len(body)/2]), waitingReader{begin}, strings.NewReader(body[len(body)/2:]))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.plain+"/media/create", reader)
			if err != nil {
				statuses <- err.Error()
				return
			}
			r.ContentLength = int64(len(body))
			r.Header.Set("X-Service-Apikey", p.key)
			r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
			response, err := p.client.Do(r)
			if err != nil {
				statuses <- err.Error()
				return
			}
			defer func() { _ = response.Body.Close() }()
			status := strconv.Itoa(response.StatusCode)
			if response.StatusCode != http.StatusCreated && response.Header.Get("Retry-After") == "" {
				status += " without Retry-After"
			}
			statuses <- status
		})
	}
	perAccount := float64(n.connections * bodyPercent / 100)
	wait.Until(t, "all have begun", func() bool {
		return s.metric("mediastack_http_bodies_in_flight")+float64(len(statuses)) >= float64(n.uploads)
	})
	if held := s.metric("mediastack_http_bodies_in_flight"); held > perAccount {
		t.Errorf("%.0f bodies of one account are on their way", held)
	}
	close(begin)
	group.Wait()
	close(statuses)
	counts := map[string]int{}
	for status := range statuses {
		counts[status]++
	}
	for status := range counts {
		if !slices.Contains([]string{"201", "429", "503"}, status) {
			t.Errorf("an upload was answered %s", status)
		}
	}
	if counts["201"] == 0 || counts["429"] == 0 {
		t.Error("none succeeds, or none is over a bound")
	}
	t.Logf("%d uploads at once: %v", n.uploads, counts)
	s.idle(0)
}

// waitingReader is an empty reader that ends when the channel is closed.
type waitingReader struct{ begin <-chan struct{} }

// Read waits.
func (w waitingReader) Read([]byte) (int, error) {
	<-w.begin
	return 0, io.EOF
}

// A body of JSON once had the time of a file.
func TestDocuments_HaveATimeOfTheirOwn(t *testing.T) {
	s := newSite(t, 1, 10, "SERVICE_JSON_BODY_TIMEOUT=100ms")
	kinds := []string{"rest", "batch", "mcp", "chunked", "expect"}
	file := &attack{address: s.plain, host: s.plain, request: withholding["tus"], keys: []string{s.tenants[0].APIKey}, addresses: 1, connect: 100, again: 1}
	file.begin(t.Context(), 1)
	defer file.end()
	wait.Until(t, "the file is held", func() bool { return s.metric("mediastack_http_bodies_in_flight") == 1 })
	for _, kind := range kinds {
		a := &attack{address: s.plain, host: s.plain, request: withholding[kind], keys: file.keys, addresses: 1, connect: 100, again: 1}
		a.begin(t.Context(), 1)
		wait.Until(t, "the body of "+kind+" is ended", func() bool { return a.summary() != "" })
		if answer := a.summary(); !strings.HasPrefix(answer, "400 ") {
			t.Errorf("%s: %s", kind, answer)
		}
		a.end()
	}
	if answer := file.summary(); answer != "" || file.held() != 1 {
		t.Errorf("a file was answered %q", answer)
	}
}
