package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/internal/webhookclient"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/webhook"
	"mediastack.dev/runtime/work"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// harness is a database with accounts, and replicas that send deliveries.
type harness struct {
	*mediatest.Harness
	secret keys.Secret
	tenant account.Principal
	logs   *logs
	// timeout is that of an attempt.
	timeout time.Duration
}

// logs is what replicas have logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func setup(t *testing.T) *harness {
	t.Helper()
	h := &harness{Harness: mediatest.New(t), logs: &logs{}, timeout: 5 * time.Second}
	var err error
	h.secret, err = keys.ParseSecret(strings.Repeat("11", 32), "")
	must(t, err)
	h.tenant = h.Tenant(64 << 20)
	h.exec(`UPDATE account SET journal_retention = 604800`)
	h.publish(h.secret)
	return h
}

func (h *harness) publish(secret keys.Secret) {
	h.T.Helper()
	opener, err := secret.Opener(keys.PurposeWebhooks)
	must(h.T, err)
	runtimetest.Lease(h.T, h.Store)
	done, err := h.Store.Webhooks.PublishWebhookKey(h.T.Context(), opener.PublicKey(), true)
	if must(h.T, err); !done {
		h.T.Fatal("the key is not published")
	}
}

func (h *harness) exec(sql string, args ...any) {
	h.T.Helper()
	must(h.T, check.ErrorOf(testenv.Connections(h.T, h.URL).Exec(h.T.Context(), sql, args...)))
}

// tell adds events of the account, and returns the ids by which receivers know them.
func (h *harness) tell(n int) (ids []string) {
	h.T.Helper()
	for range n {
		var epoch, id int64
		must(h.T, testenv.Connections(h.T, h.URL).QueryRow(h.T.Context(), `INSERT INTO journal (account_id, type) VALUES ($1, 'media.sealed') RETURNING epoch, id`, h.tenant.Account.ID).Scan(&epoch, &id))
		ids = append(ids, strconv.FormatInt(epoch, 10)+"-"+strconv.FormatInt(id, 10))
	}
	return ids
}

var config = webhook.Config{Concurrency: 4, PerWebhook: 2, MaxPending: 1000, CheckInterval: 50 * time.Millisecond}

// replica runs the deliveries of a process until stop.
func (h *harness) replica(secret keys.Secret, change ...func(*webhook.Config)) (stop func()) {
	h.T.Helper()
	cfg := config
	for _, apply := range change {
		apply(&cfg)
	}
	store, err := postgres.Open(h.T.Context(), postgres.Config{DatabaseURL: h.URL})
	must(h.T, err)
	_, err = store.Installations.TouchRuntime(h.T.Context(), uuid.New(), "test", time.Hour)
	must(h.T, err)
	sender, err := webhookclient.New(webhookclient.Config{AllowNetworks: []string{"127.0.0.0/8"}, Ports: []int{443}, Timeout: h.timeout}, webhookclient.Deps{})
	must(h.T, err)
	opener, err := secret.Opener(keys.PurposeWebhooks)
	must(h.T, err)
	log := slog.New(slog.NewTextHandler(h.logs, nil))
	service, err := webhook.New(cfg, webhook.Deps{Store: store.Webhooks, Sender: sender, Opener: opener, BaseURL: "https://media.example.org", Timeout: h.timeout, Now: time.Now, Log: log})
	must(h.T, err)
	runner, err := work.NewRunner(work.Deps{Store: store.Tasks, Log: log})
	must(h.T, err)
	must(h.T, runner.Register(webhook.DeliveryWork, service, service.Policy()))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = runner.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait(); store.Close() })
	h.T.Cleanup(stop)
	return stop
}

// receiver records what it gets, and answers as the test says.
type receiver struct {
	*httptest.Server
	mu sync.Mutex
	// bodies are those of each id, in their order.
	bodies     map[string][]string
	signatures []string
	running    int
	most       int // of the requests at once
	answer     func(w http.ResponseWriter, r *http.Request)
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{bodies: map[string][]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	id := request.Header.Get(webhook.HeaderID)
	r.mu.Lock()
	r.bodies[id] = append(r.bodies[id], string(body))
	r.signatures = append(r.signatures, request.Header.Get(webhook.HeaderSignature))
	r.running++
	r.most = max(r.most, r.running)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, request)
	}
	r.mu.Lock()
	r.running--
	r.mu.Unlock()
}

// answers sets how requests are answered from now on; nil = 200.
func (r *receiver) answers(answer func(w http.ResponseWriter, r *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// hang answers nothing.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func (r *receiver) received() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.bodies)
}

// requests counts all requests, also those with the same event.
func (r *receiver) requests() (n int) {
	for _, bodies := range r.received() {
		n += len(bodies)
	}
	return n
}

// has reports whether all ids were received.
func (r *receiver) has(ids ...string) func() bool {
	return func() bool {
		got := r.received()
		return !slices.ContainsFunc(ids, func(id string) bool { return len(got[id]) == 0 })
	}
}

// to returns a webhook of the account.
func (h *harness) to(r *receiver, change ...func(*webhook.Webhook)) webhook.Webhook {
	h.T.Helper()
	name := strings.TrimPrefix(r.URL, "http://")
	w := webhook.Webhook{Namespace: "team-a", Name: name, UID: "uid of " + name, Generation: 1, AccountID: h.tenant.Account.ID, Format: webhook.Standard,
		Target: webhook.Target{URL: r.URL, Secrets: []webhook.Secret{{Key: bytes.Repeat([]byte{7}, 24)}}}}
	for _, apply := range change {
		apply(&w)
	}
	h.put(w)
	return w
}

func (h *harness) put(w webhook.Webhook) webhook.State {
	h.T.Helper()
	state, err := h.Store.Webhooks.PutWebhook(h.T.Context(), w)
	must(h.T, err)
	return state
}

func (h *harness) state(w webhook.Webhook) (state webhook.State) {
	h.T.Helper()
	must(h.T, h.Store.Webhooks.EachWebhook(h.T.Context(), nil, func(s webhook.State) {
		if s.UID == w.UID {
			state = s
		}
	}))
	return state
}

// due makes what waits for its next attempt due, and ends rests.
func (h *harness) due() {
	h.exec(`UPDATE work SET due_at = now() WHERE kind = 'webhook' AND claim IS NULL`)
	h.exec(`UPDATE work_turn SET not_before = 'epoch' WHERE kind = 'webhook'`)
}

// Two replicas send each event of a committed change once, and none of one that was rolled back.
func TestService_SendsEachEventOfWhatIsCommitted(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	w := h.to(r)
	h.replica(h.secret)
	h.replica(h.secret)
	tx, err := testenv.Connections(t, h.URL).Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `INSERT INTO journal (account_id, type) VALUES ($1, 'media.deleted')`, h.tenant.Account.ID)
	must(t, err)
	must(t, tx.Rollback(t.Context()))
	ids := h.tell(60)
	wait.Until(t, "all events are received", r.has(ids...))
	wait.Until(t, "nothing is pending", func() bool { return h.state(w).Pending == 0 })
	got := r.received()
	if len(got) != len(ids) {
		t.Errorf("%d events, want %d", len(got), len(ids))
	}
	for id, bodies := range got {
		var payload struct {
			Type journal.Type
			Data struct{ ID string }
		}
		if err := json.Unmarshal([]byte(bodies[0]), &payload); err != nil || len(bodies) != 1 || payload.Data.ID != id || payload.Type != journal.MediaSealed {
			t.Errorf("%s: %q %v", id, bodies, err)
		}
	}
	if state := h.state(w); state.LastStatus != 200 || state.LastSuccess.IsZero() || !state.FailingSince.IsZero() {
		t.Errorf("%+v", state)
	}
}

// A delivery has the same bytes at each attempt, and ends with the first one that the receiver accepts, or with the tenth.
func TestService_TriesTenTimes(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	r.answers(status(http.StatusInternalServerError))
	w := h.to(r)
	h.replica(h.secret)
	id := h.tell(1)[0]
	wait.Until(t, "the delivery has ended", func() bool { h.due(); return len(r.received()[id]) == 10 && h.state(w).Pending == 0 })
	if bodies := r.received()[id]; len(slices.Compact(bodies)) != 1 {
		t.Errorf("%q", bodies)
	}
	state := h.state(w)
	if state.FailingSince.IsZero() || state.LastStatus != 500 || state.LastError != "" {
		t.Errorf("%+v", state)
	}
	attempts, err := h.Store.Webhooks.Attempts(t.Context(), w.UID)
	if err != nil || len(attempts) != 10 || attempts[0].Number != 10 || attempts[9].Number != 1 || attempts[0].EventID != id || attempts[0].Status != 500 || attempts[0].Type != journal.MediaSealed {
		t.Errorf("%+v %v", attempts, err)
	}
	r.answers(nil)
	second := h.tell(1)[0]
	wait.Until(t, "the next event is received", func() bool { h.due(); return r.has(second)() })
	wait.Until(t, "the receiver accepts", func() bool { s := h.state(w); return s.FailingSince.IsZero() && s.Pending == 0 })
}

// A receiver that never answers, with many events, does not hold others up, and gets one request at a time after some failures.
func TestService_AReceiverThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	h := setup(t)
	hanging, others := newReceiver(t), []*receiver{newReceiver(t), newReceiver(t)}
	hanging.answers(hang)
	w := h.to(hanging)
	h.replica(h.secret)
	h.tell(50)
	wait.Until(t, "the receiver hangs", func() bool { return len(hanging.received()) > 0 })
	for _, other := range others {
		h.to(other)
	}
	ids := h.tell(20)
	for _, other := range others {
		wait.Until(t, "another receiver has its events", other.has(ids...))
	}
	if hanging.most > config.PerWebhook {
		t.Errorf("%d requests at once, want %d", hanging.most, config.PerWebhook)
	}
	h.exec(`UPDATE webhook_progress p SET failures = 5 FROM webhook w WHERE w.id = p.webhook_id AND w.object_uid = $1`, w.UID)
	hanging.CloseClientConnections()
	wait.Until(t, "no request runs", func() bool {
		hanging.mu.Lock()
		defer hanging.mu.Unlock()
		hanging.most = hanging.running
		return hanging.running == 0
	})
	before := hanging.requests()
	wait.Until(t, "it is asked again", func() bool { h.due(); return hanging.requests() > before+1 })
	if hanging.most > 1 {
		t.Errorf("%d requests at once to a receiver that fails", hanging.most)
	}
}

// Many receivers that hang leave slots to another one, and after their first attempts not even their events are claimed with those of others.
// It went wrong: they held all slots but one for the time of an attempt, and did not even fail if they answered at its end.
func TestService_ManyReceiversThatHangHoldNobodyUp(t *testing.T) {
	t.Parallel()
	h := setup(t)
	const hanging = 40
	h.timeout = time.Minute
	asked := func(hooks []*receiver) (n int) {
		for _, r := range hooks {
			r.mu.Lock()
			n += r.running
			r.mu.Unlock()
		}
		return n
	}
	var hooks []*receiver
	for range hanging {
		r := newReceiver(t)
		r.answers(hang)
		h.to(r)
		hooks = append(hooks, r)
	}
	quick := newReceiver(t)
	w := h.to(quick)
	ids := h.tell(20)
	h.replica(h.secret, func(c *webhook.Config) { c.Concurrency, c.PerWebhook = 64, 8 })
	wait.Until(t, "a receiver has its events while others hang", quick.has(ids...))
	more := h.tell(20)
	wait.Until(t, "it has the next ones", quick.has(more...))
	wait.Until(t, "nothing is pending", func() bool { return h.state(w).Pending == 0 })
	if n := asked(hooks); n < hanging || n > 64 {
		t.Errorf("%d requests hang", n)
	}
	for _, r := range hooks {
		if got := len(r.received()); got > config.PerWebhook*4 {
			t.Errorf("a receiver that hangs has %d requests", got)
		}
	}
}

// What a process has recorded, the next one knows: webhooks that are slow do not get the slots of others.
func TestService_KnowsSlowReceiversFromBefore(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.timeout = time.Minute
	var hooks []*receiver
	for range 5 {
		r := newReceiver(t)
		r.answers(hang)
		h.to(r)
		hooks = append(hooks, r)
	}
	h.exec(`UPDATE webhook_progress SET slow = true`)
	h.tell(5)
	h.replica(h.secret) // two slots for webhooks that are slow
	running := func() (n int) {
		for _, r := range hooks {
			r.mu.Lock()
			n += r.running
			r.mu.Unlock()
		}
		return n
	}
	wait.Until(t, "the slots for slow receivers are held", func() bool { return running() >= 1 })
	quick := newReceiver(t)
	h.to(quick)
	wait.Until(t, "another receiver has its events", quick.has(h.tell(20)...))
	if n := running(); n > 2 {
		t.Errorf("%d requests to slow receivers at once", n)
	}
}

func TestService_RecordsWhichReceiversAreSlow(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	r.answers(func(_ http.ResponseWriter, request *http.Request) {
		late, cancel := context.WithTimeout(request.Context(), 1200*time.Millisecond)
		defer cancel()
		<-late.Done()
	})
	w := h.to(r)
	h.replica(h.secret)
	is := func() (slow bool) {
		must(t, testenv.Connections(t, h.URL).QueryRow(t.Context(), `SELECT slow FROM webhook_progress p JOIN webhook w ON w.id = p.webhook_id WHERE w.object_uid = $1`, w.UID).Scan(&slow))
		return slow
	}
	h.tell(1)
	wait.Until(t, "it is slow", is)
	r.answers(nil)
	h.tell(1)
	wait.Until(t, "it is not anymore", func() bool { return !is() })
}

func TestService_WaitsAsLongAsTheReceiverAsks(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	w := h.to(r)
	h.replica(h.secret)
	h.tell(1)
	wait.Until(t, "the receiver was asked", func() bool { return h.state(w).LastStatus == 429 })
	var rests bool
	wait.Until(t, "the attempt has ended", func() bool {
		must(t, testenv.Connections(t, h.URL).QueryRow(t.Context(), `SELECT coalesce(bool_or(due_at > now() + interval '119 minutes' AND not_before > now() + interval '119 minutes'), false)
			FROM work JOIN work_turn USING (kind, account_id) WHERE kind = 'webhook' AND claim IS NULL`).Scan(&rests))
		return rests
	})
	h.tell(5)
	wait.Until(t, "more events wait", func() bool { return h.state(w).Pending == 6 })
	if got := len(r.received()); got != 1 {
		t.Errorf("%d events were sent", got)
	}
}

func TestService_GoneEndsTheWebhook(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	r.answers(status(http.StatusGone))
	w := h.to(r)
	h.replica(h.secret)
	h.tell(10)
	wait.Until(t, "the webhook has ended", func() bool { s := h.state(w); return s.Ended && s.Pending == 0 })
	r.answers(nil)
	w.Generation++
	h.put(w)
	ids := h.tell(1)
	wait.Until(t, "events of the next generation are received", r.has(ids...))
}

// What a receiver answers whose URL was replaced meanwhile is no answer of the next one.
func TestService_GoneOfAFormerReceiverLosesNothing(t *testing.T) {
	t.Parallel()
	h := setup(t)
	former, next := newReceiver(t), newReceiver(t)
	w := h.to(former)
	former.answers(func(answer http.ResponseWriter, _ *http.Request) {
		changed := w
		changed.Generation, changed.URL = 2, next.URL
		h.put(changed)
		answer.WriteHeader(http.StatusGone)
	})
	h.replica(h.secret)
	ids := h.tell(1)
	wait.Until(t, "the next receiver has the event", func() bool { h.due(); return next.has(ids...)() })
	if state := h.state(w); state.Ended {
		t.Errorf("%+v", state)
	}
}

func TestService_SendsNothingWhileSuspended(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	r.answers(status(http.StatusServiceUnavailable))
	w := h.to(r)
	stop := h.replica(h.secret)
	first := h.tell(1)
	wait.Until(t, "an attempt failed", func() bool { return h.state(w).LastStatus == 503 })
	stop()
	w.Suspended = true
	h.put(w)
	r.answers(nil)
	h.replica(h.secret)
	h.due()
	second := h.tell(1)
	wait.Until(t, "the delivery rests", func() bool {
		var rests bool
		must(t, testenv.Connections(t, h.URL).QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM work_turn WHERE kind = 'webhook' AND not_before > now())`).Scan(&rests))
		return rests
	})
	if got := r.received(); len(got[first[0]]) != 1 || len(got) != 1 {
		t.Errorf("%v", got)
	}
	w.Suspended = false
	h.put(w)
	wait.Until(t, "both events are received", func() bool { got := r.received(); return len(got[first[0]]) == 2 && len(got[second[0]]) == 1 })
}

// During an overlap both secrets sign, and one whose time is over does not.
func TestService_SignsWithAllSecretsOfTheOverlap(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	h.to(r, func(w *webhook.Webhook) {
		w.Secrets = []webhook.Secret{{Key: bytes.Repeat([]byte{1}, 24)}, {Key: bytes.Repeat([]byte{2}, 24), Until: time.Now().Add(time.Hour)}, {Key: bytes.Repeat([]byte{3}, 24), Until: time.Now().Add(-time.Second)}}
	})
	h.replica(h.secret)
	wait.Until(t, "the event is received", r.has(h.tell(1)...))
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := strings.Fields(r.signatures[0]); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// A process without the secret for which a webhook is encrypted claims none of its deliveries, says so once, and sends them when the operator
// has encrypted them again. It went wrong: it claimed them again and again, and put them off for others by that.
func TestService_WithoutTheServerSecretAnotherProcessSends(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	w := h.to(r)
	other, err := keys.ParseSecret(strings.Repeat("22", 32), "")
	must(t, err)
	stop := h.replica(other)
	ids := h.tell(3)
	wait.Until(t, "the deliveries are made", func() bool { return h.state(w).Pending == 3 })
	ofAnother := newReceiver(t)
	h.to(ofAnother) // for the key of the replica, the last one that was published
	wait.Until(t, "another webhook has its events", ofAnother.has(h.tell(5)...))
	var touched int
	must(t, testenv.Connections(t, h.URL).QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE attempts > 0 OR claim IS NOT NULL OR due_at > now()) FROM work JOIN webhook ON webhook.id = work.account_id
		WHERE kind = 'webhook' AND object_uid = $1`, w.UID).Scan(&touched))
	if touched > 0 {
		t.Errorf("%d deliveries were claimed", touched)
	}
	if state := h.state(w); !state.LastAttempt.IsZero() || len(r.received()) != 0 {
		t.Errorf("%+v", state)
	}
	if n := strings.Count(h.logs.String(), "level=WARN"); n != 1 || !strings.Contains(h.logs.String(), "encrypted for another server secret") {
		t.Errorf("%d warnings: %s", n, h.logs)
	}
	stop()
	rotated, err := keys.ParseSecret(strings.Repeat("22", 32), strings.Repeat("11", 32))
	must(t, err)
	stop = h.replica(rotated)
	wait.Until(t, "the events are received", func() bool { return r.has(ids...)() && h.state(w).Pending == 0 })
	stop()
	h.replica(other)
	later := h.tell(1)
	wait.Until(t, "the delivery waits", func() bool { return h.state(w).Pending == 1 })
	h.put(w) // the operator encrypts for the key that the replicas have published
	wait.Until(t, "the event is received", r.has(later...))
}

func TestService_SelectsEvents(t *testing.T) {
	t.Parallel()
	h := setup(t)
	all, typed, grouped, ofApp := newReceiver(t), newReceiver(t), newReceiver(t), newReceiver(t)
	h.to(all, func(w *webhook.Webhook) { w.AccountID, w.Format = uuid.Nil, webhook.CloudEvents })
	h.to(typed, func(w *webhook.Webhook) { w.Types = []journal.Type{journal.MediaDeleted, journal.MediaPurged} })
	h.to(grouped, func(w *webhook.Webhook) { w.Groups = []string{"album", "other"} })
	h.to(ofApp, func(w *webhook.Webhook) { w.Apps = []string{h.tenant.App.Name} })
	h.replica(h.secret)
	insert := func(kind, group string, app any) {
		h.exec(`INSERT INTO journal (account_id, app_id, type, group_label) VALUES ($1, $2, $3, $4)`, h.tenant.Account.ID, app, kind, group)
	}
	insert("media.sealed", "album", h.tenant.App.ID)
	insert("media.deleted", "", nil)
	insert("media.updated", "third", nil)
	for r, want := range map[*receiver]int{all: 3, typed: 1, grouped: 1, ofApp: 1} {
		wait.Until(t, "a receiver has its events", func() bool { return len(r.received()) >= want })
	}
	wait.Until(t, "nothing is pending", func() bool {
		pending := 0
		must(t, h.Store.Webhooks.EachWebhook(t.Context(), nil, func(s webhook.State) { pending += s.Pending }))
		return pending == 0
	})
	for r, want := range map[*receiver]int{all: 3, typed: 1, grouped: 1, ofApp: 1} {
		if got := r.received(); len(got) != want {
			t.Errorf("%d events, want %d: %v", len(got), want, got)
		}
	}
	for _, bodies := range all.received() {
		if !strings.Contains(bodies[0], `"specversion":"1.0"`) || !strings.Contains(bodies[0], `"source":"https://media.example.org/accounts/`+h.tenant.Account.ID.String()) {
			t.Errorf("%s", bodies[0])
		}
	}
}

func TestService_SendsATestEvent(t *testing.T) {
	t.Parallel()
	h := setup(t)
	r := newReceiver(t)
	w := h.to(r)
	h.replica(h.secret)
	w.Test = "token"
	h.put(w)
	wait.Until(t, "the test event is received", r.has("test-token"))
	if body := r.received()["test-token"][0]; !strings.Contains(body, `"type":"webhook.test"`) || !strings.Contains(body, h.tenant.Account.Name) {
		t.Errorf("%s", body)
	}
	wait.Until(t, "it is handled", func() bool { s := h.state(w); return s.Tested == "token" && s.Pending == 0 })
}
