package postgres_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/webhook"
	"mediastack.dev/runtime/work"
)

// hookEnv is an account with a journal, and what a runtime and an operator do with its webhooks.
type hookEnv struct {
	*testing.T
	store   *postgres.Store
	url     string
	account uuid.UUID
	opener  *keys.Opener
}

func newHookEnv(t *testing.T) *hookEnv {
	t.Helper()
	store, url := setup(t)
	e := &hookEnv{T: t, store: store, url: url, account: journaled(t, store, account.Actor{}).AccountID, opener: opener(t, "11")}
	exec(t, url, `DELETE FROM journal`)
	must(t, touch(t, store, uuid.New(), "test"))
	e.publish(store, e.opener)
	return e
}

// publish publishes the key of a process that begins.
func (e *hookEnv) publish(store *postgres.Store, of *keys.Opener) {
	e.Helper()
	if done, err := store.Webhooks.PublishWebhookKey(e.Context(), of.PublicKey(), true); err != nil || !done {
		e.Fatal(done, err)
	}
}

func opener(t *testing.T, digits string) *keys.Opener {
	t.Helper()
	secret, err := keys.ParseSecret(strings.Repeat(digits, 32), "")
	must(t, err)
	o, err := secret.Opener(keys.PurposeWebhooks)
	must(t, err)
	return o
}

// hook returns a webhook of the account that no change was made to.
func (e *hookEnv) hook(name string) webhook.Webhook {
	return webhook.Webhook{Namespace: "team-a", Name: name, UID: "uid of " + name, Generation: 1, AccountID: e.account, Format: webhook.Standard,
		Target: webhook.Target{URL: "https://example.org/secret-path", Secrets: []webhook.Secret{{Key: bytes.Repeat([]byte{7}, 24)}}}}
}

func (e *hookEnv) put(w webhook.Webhook) webhook.State {
	e.Helper()
	state, err := e.store.Webhooks.PutWebhook(e.Context(), w)
	must(e.T, err)
	return state
}

// tell adds events with these groups, and returns the number of the last one.
func (e *hookEnv) tell(groups ...string) {
	e.Helper()
	for _, group := range groups {
		exec(e.T, e.url, `INSERT INTO journal (account_id, type, group_label) VALUES ($1, 'media.sealed', $2)`, e.account, group)
	}
}

// dispatch makes deliveries of what webhooks have to look at, and returns the groups of the events of their batches.
func (e *hookEnv) dispatch(most int) (groups []string) {
	e.Helper()
	ids, err := e.store.Webhooks.WebhooksWithNews(e.Context(), most)
	must(e.T, err)
	for _, id := range ids {
		_, err := e.store.Webhooks.Dispatch(e.Context(), id, most, func(b webhook.Batch) (tasks []work.NewTask, err error) {
			if b.Test != "" {
				groups = append(groups, "test "+b.Test)
			}
			for _, event := range b.Events {
				groups = append(groups, event.Group)
				payload := []byte("12345678{}\n")
				tasks = append(tasks, work.NewTask{Kind: webhook.DeliveryWork, Key: uuid.NewSHA1(b.ID, []byte(event.EventID())), AccountID: b.ID, DueAt: event.At, Payload: payload})
			}
			return tasks, nil
		})
		must(e.T, err)
	}
	return groups
}

// sends requires that these events are dispatched, once transactions in the background have ended.
func (e *hookEnv) sends(most int, want ...string) {
	e.Helper()
	var got []string
	wait.Until(e.T, fmt.Sprintf("%v is dispatched", want), func() bool {
		got = append(got, e.dispatch(most)...)
		return len(got) >= len(want)
	})
	if got = append(got, e.dispatch(most)...); !slices.Equal(got, want) {
		e.Errorf("%v is dispatched, want %v", got, want)
	}
}

func (e *hookEnv) state(uid string) (state webhook.State) {
	e.Helper()
	must(e.T, e.store.Webhooks.EachWebhook(e.Context(), nil, func(s webhook.State) {
		if s.UID == uid {
			state = s
		}
	}))
	return state
}

func TestWebhook_SendsEventsFromItsBeginningOnOnce(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	e.tell("before")
	wait.Until(t, "the event before is behind all readers", func() bool { return len(events(t, e.store, e.account)) == 1 })
	if state := e.put(e.hook("a")); !state.Journal || state.Pending != 0 || state.UID != "uid of a" || state.Name != "a" {
		t.Errorf("%+v", state)
	}
	all := e.hook("all")
	all.AccountID = uuid.Nil
	e.put(all)
	e.tell("one", "two")
	var got []string
	wait.Until(t, "both webhooks have both events", func() bool { got = append(got, e.dispatch(100)...); return len(got) >= 4 })
	slices.Sort(got)
	if !slices.Equal(got, []string{"one", "one", "two", "two"}) || len(e.dispatch(100)) != 0 {
		t.Errorf("%v", got)
	}
	if state := e.state("uid of a"); state.Pending != 2 || state.Full || state.Oldest.IsZero() {
		t.Errorf("%+v", state)
	}
	must(t, e.store.Webhooks.RemoveWebhook(t.Context(), "uid of a"))
	must(t, e.store.Webhooks.RemoveWebhook(t.Context(), "uid of a"))
	counts(t, e.url, 2, "deliveries", `SELECT count(*) FROM work WHERE kind = 'webhook'`)
	must(t, e.store.Webhooks.RemoveWebhook(t.Context(), "uid of all"))
	counts(t, e.url, 0, "rows", `SELECT (SELECT count(*) FROM work WHERE kind = 'webhook') + (SELECT count(*) FROM webhook) + (SELECT count(*) FROM webhook_progress)`)
}

// A transaction that ends late has its event sent, although others were sent before.
func TestWebhook_WaitsForTransactionsThatAreOpen(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	e.put(e.hook("a"))
	open, err := connect(t, e.url).Begin(t.Context())
	must(t, err)
	_, err = open.Exec(t.Context(), `INSERT INTO journal (account_id, type, group_label) VALUES ($1, 'media.sealed', 'late')`, e.account)
	must(t, err)
	e.tell("early")
	if got := e.dispatch(100); len(got) != 0 {
		t.Errorf("%v is dispatched beside an open transaction", got)
	}
	must(t, open.Commit(t.Context()))
	e.sends(100, "late", "early")
}

// What an operator puts again is not written, so a converged cluster writes nothing.
func TestPutWebhook_WritesChangesOnly(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	hook := e.hook("a")
	hook.Types, hook.Since = []journal.Type{journal.MediaSealed}, time.Now()
	hook.Replay = "r1"
	e.put(hook)
	version := func() (v string) {
		must(t, testenv.Connections(t, e.url).QueryRow(t.Context(), `SELECT w.xmin || '/' || p.xmin FROM webhook w JOIN webhook_progress p ON p.webhook_id = w.id`).Scan(&v))
		return v
	}
	before := version()
	e.put(hook)
	if version() != before {
		t.Error("an unchanged webhook is written")
	}
	for what, change := range map[string]func(*webhook.Webhook){
		"url": func(w *webhook.Webhook) { w.URL += "?" }, "secret": func(w *webhook.Webhook) { w.Secrets[0].Until = time.Now() }, "generation": func(w *webhook.Webhook) { w.Generation++ },
		"types": func(w *webhook.Webhook) { w.Types = nil }, "apps": func(w *webhook.Webhook) { w.Apps = []string{"a"} }, "groups": func(w *webhook.Webhook) { w.Groups = []string{"a"} },
		"format": func(w *webhook.Webhook) { w.Format = webhook.CloudEvents }, "suspended": func(w *webhook.Webhook) { w.Suspended = true }, "test": func(w *webhook.Webhook) { w.Test = "t" },
		"replay": func(w *webhook.Webhook) { w.Replay = "r2" }, "since": func(w *webhook.Webhook) { w.Since = w.Since.Add(time.Hour) }, "events": func(w *webhook.Webhook) { w.Events = []string{"1-1"} },
		"uid": func(w *webhook.Webhook) { w.UID = "another uid" }, "account": func(w *webhook.Webhook) { w.AccountID = uuid.Nil },
	} {
		before := version()
		changed := hook
		changed.Secrets = slices.Clone(hook.Secrets)
		change(&changed)
		if e.put(changed); version() == before {
			t.Errorf("a changed %s is not written", what)
		}
		e.put(hook)
	}
	counts(t, e.url, 1, "webhooks", `SELECT count(*) FROM webhook`)
}

// URL and secrets are not in the database in plain text, and are encrypted again for a new server secret.
func TestPutWebhook_EncryptsForTheRuntimes(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	hook := e.hook("a")
	e.put(hook)
	counts(t, e.url, 0, "plain texts", `SELECT count(*) FROM webhook w WHERE position('secret-path'::bytea IN w.target) > 0 OR position(decode(repeat('07', 24), 'hex') IN w.target) > 0 OR w::text LIKE '%secret-path%'`)
	receiver := func() webhook.Receiver {
		t.Helper()
		var id uuid.UUID
		must(t, testenv.Connections(t, e.url).QueryRow(t.Context(), `SELECT id FROM webhook`).Scan(&id))
		r, err := e.store.Webhooks.Receiver(t.Context(), id)
		must(t, err)
		return r
	}
	if plain, err := e.opener.Open(receiver().Sealed); err != nil || !strings.Contains(string(plain), "secret-path") {
		t.Errorf("%s, %v", plain, err)
	}
	rotated := opener(t, "22")
	e.publish(e.store, rotated)
	if !e.state(hook.UID).FormerKey {
		t.Error("nothing says that the webhook is encrypted for the former key")
	}
	if state := e.put(hook); state.FormerKey {
		t.Errorf("%+v", state)
	}
	if _, err := rotated.Open(receiver().Sealed); err != nil {
		t.Error(err)
	}
	// A runtime that starts with the former secret again has its key published again.
	e.publish(e.store, e.opener)
	e.put(hook)
	if _, err := e.opener.Open(receiver().Sealed); err != nil {
		t.Error(err)
	}
	counts(t, e.url, 2, "keys", `SELECT count(*) FROM webhook_key`)
}

// A process with another secret that has started and ended is not the last one that counts.
func TestPublishWebhookKey_IsAgainThatOfAProcessThatLives(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	last := func() (id string) {
		must(t, testenv.Connections(t, e.url).QueryRow(t.Context(), `SELECT id FROM webhook_key ORDER BY published_at DESC LIMIT 1`).Scan(&id))
		return id
	}
	later := func() {
		t.Helper()
		if done, err := e.store.Webhooks.PublishWebhookKey(t.Context(), e.opener.PublicKey(), false); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	other, process := open(t, e.url), uuid.New()
	if done, err := other.Webhooks.PublishWebhookKey(t.Context(), opener(t, "22").PublicKey(), true); err != nil || done {
		t.Errorf("without a lease: %t, %v", done, err)
	}
	must(t, touch(t, other, process, "test"))
	e.publish(other, opener(t, "22"))
	if later(); last() != opener(t, "22").PublicKey().ID {
		t.Error("the key of a process that lives is replaced")
	}
	exec(t, e.url, `UPDATE runtime_instance SET lease_ends = now() - interval '1s' WHERE id = $1`, process)
	if later(); last() != e.opener.PublicKey().ID {
		t.Error("the key of a dead process stays the last one")
	}
}

func TestPutWebhook_NeedsAKeyAndAnOpenAccount(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	exec(t, e.url, `DELETE FROM webhook_key`)
	if _, err := e.store.Webhooks.PutWebhook(t.Context(), e.hook("a")); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	e.publish(e.store, e.opener)
	other := e.hook("a")
	other.AccountID = uuid.New()
	if _, err := e.store.Webhooks.PutWebhook(t.Context(), other); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	closeAccount(t, registry(e.store), e.account)
	if _, err := e.store.Webhooks.PutWebhook(t.Context(), e.hook("a")); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	counts(t, e.url, 0, "webhooks", `SELECT count(*) FROM webhook`)
}

// An object that is made again, as in a new cluster, goes on where the one before was.
func TestPutWebhook_OfAnObjectThatIsMadeAgainGoesOn(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	e.put(e.hook("a"))
	e.tell("one")
	again := e.hook("a")
	again.UID = "a later uid"
	e.put(again)
	must(t, e.store.Webhooks.RemoveWebhook(t.Context(), "uid of a")) // by the former cluster
	e.sends(100, "one")
}

func TestWebhook_OfWhichTheQueueIsFullGoesOnWhenHalfOfItIsEmpty(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	e.put(e.hook("a"))
	e.tell("1", "2", "3", "4", "5", "6", "7")
	e.sends(4, "1", "2", "3", "4")
	if state := e.state("uid of a"); state.Pending != 4 || !state.Full {
		t.Errorf("%+v", state)
	}
	exec(t, e.url, `DELETE FROM work WHERE ctid = ANY (ARRAY (SELECT ctid FROM work WHERE kind = 'webhook' LIMIT 1))`)
	if got := e.dispatch(4); len(got) != 0 {
		t.Errorf("%v is dispatched although more than half of the queue waits", got)
	}
	exec(t, e.url, `DELETE FROM work WHERE kind = 'webhook'`)
	e.sends(4, "5", "6", "7")
	if state := e.state("uid of a"); state.Full {
		t.Errorf("%+v", state)
	}
}

func TestWebhook_ThatIsSuspendedKeepsEvents(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	hook := e.hook("a")
	e.put(hook)
	e.tell("one")
	e.sends(100, "one")
	exec(t, e.url, `UPDATE work SET due_at = now() + interval '1 hour', attempts = 3`)
	exec(t, e.url, `INSERT INTO work_turn (kind, account_id, served_at, not_before) SELECT 'webhook', id, now(), now() + interval '1 hour' FROM webhook`)
	hook.Suspended = true
	e.put(hook)
	e.tell("two")
	if got := e.dispatch(100); len(got) != 0 {
		t.Errorf("%v is dispatched", got)
	}
	hook.Suspended = false
	e.put(hook)
	e.sends(100, "two")
	counts(t, e.url, 1, "deliveries with the attempts before the one that was brought forward", `SELECT count(*) FROM work WHERE kind = 'webhook' AND attempts = 2`)
	counts(t, e.url, 2, "deliveries that are due", `SELECT count(*) FROM work LEFT JOIN work_turn USING (kind, account_id) WHERE kind = 'webhook' AND due_at <= now() AND not_before <= now()`)
}

func TestWebhook_EventsThatTheJournalDoesNotHaveAnymoreAreMissed(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	e.put(e.hook("a"))
	exec(t, e.url, `UPDATE webhook_progress SET seen_at = now() - interval '8 days', read_at = now() - interval '8 days', full_queue = true`)
	exec(t, e.url, `INSERT INTO journal (account_id, type, group_label, at) VALUES ($1, 'media.sealed', 'expired', now() - interval '7 days 1 minute'), ($1, 'media.sealed', 'kept', now() - interval '6 days')`, e.account)
	e.sends(100, "kept")
	if state := e.state("uid of a"); state.Missed.IsZero() {
		t.Errorf("%+v", state)
	}
}

// A webhook without events has missed none, however long it has had none.
func TestWebhook_WithoutEventsMissesNone(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	e.put(e.hook("a"))
	exec(t, e.url, `UPDATE webhook_progress SET seen_at = now() - interval '1 hour'`)
	e.dispatch(100)
	counts(t, e.url, 1, "webhooks that are at the end", `SELECT count(*) FROM webhook_progress WHERE seen_at > now() - interval '1 minute'`)
	e.tell("one")
	e.sends(100, "one")
	if state := e.state("uid of a"); !state.Missed.IsZero() {
		t.Errorf("%+v", state)
	}
}

func TestWebhook_SendsEventsAgain(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	hook := e.hook("a")
	e.put(hook)
	e.tell("one", "two")
	e.sends(100, "one", "two")
	exec(t, e.url, `DELETE FROM work WHERE kind = 'webhook'`)
	ids := map[string]string{}
	for _, event := range events(t, e.store, e.account) {
		ids[event.Group] = event.EventID()
	}
	hook.Replay, hook.Events = "by id", []string{ids["two"]}
	e.put(hook)
	e.sends(100, "two")
	if state := e.state("uid of a"); state.Replayed != "by id" || state.ReplayError != "" {
		t.Errorf("%+v", state)
	}
	hook.Replay, hook.Events = "unknown", []string{ids["two"], "99-1"}
	e.put(hook)
	e.sends(100, "two") // it is pending, so no task is added
	if state := e.state("uid of a"); state.Replayed != "unknown" || state.ReplayError != "1 of 2 events are sent again; the journal does not have 99-1" || state.Pending != 1 {
		t.Errorf("%+v", state)
	}
	hook.Types = []journal.Type{journal.MediaDeleted}
	hook.Replay, hook.Events = "not selected", []string{ids["two"], "099-1"}
	e.put(hook)
	e.dispatch(100)
	if state := e.state("uid of a"); state.ReplayError != "0 of 2 events are sent again; the journal does not have 99-1; the webhook does not select "+ids["two"] {
		t.Errorf("%+v", state)
	}
	hook.Types = nil
	hook.Replay, hook.Events = "malformed", []string{"x"}
	e.put(hook)
	e.sends(100)
	if state := e.state("uid of a"); state.Replayed != "malformed" || state.ReplayError != `"x" is not the id of an event` {
		t.Errorf("%+v", state)
	}
	hook.Replay, hook.Events, hook.Since = "since", nil, time.Now().Add(-time.Hour)
	e.put(hook)
	e.sends(100, "one", "two")
	if state := e.state("uid of a"); state.Replayed != "since" || state.ReplayError != "" || state.Pending != 2 {
		t.Errorf("%+v", state)
	}
	hook.Replay, hook.Since = "too old", time.Now().Add(-100*24*time.Hour)
	e.put(hook)
	e.sends(100, "one", "two")
	if state := e.state("uid of a"); !strings.HasPrefix(state.ReplayError, "the journal begins at ") || !state.Missed.IsZero() {
		t.Errorf("%+v", state)
	}
	hook.Test = "token"
	e.put(hook)
	e.sends(100, "test token")
	if state := e.state("uid of a"); state.Tested != "token" {
		t.Errorf("%+v", state)
	}
}

func (e *hookEnv) only() (id uuid.UUID) {
	e.Helper()
	must(e.T, testenv.Connections(e.T, e.url).QueryRow(e.Context(), `SELECT id FROM webhook`).Scan(&id))
	return id
}

func TestRecordAttempt_KeepsTheLastOnesAndWhatTheyMean(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	e.put(e.hook("a"))
	id := e.only()
	for i := 1; i <= 3; i++ {
		failures, err := e.store.Webhooks.RecordAttempt(t.Context(), id, webhook.Attempt{At: time.Now(), EventID: "1-1", Number: i, Error: "no answer"}, webhook.Outcome{Generation: 1}, time.Minute)
		if err != nil || failures != i {
			t.Errorf("%d %v", failures, err)
		}
	}
	if state := e.state("uid of a"); state.FailingSince.IsZero() || state.LastError != "no answer" || state.LastStatus != 0 || !state.LastSuccess.IsZero() {
		t.Errorf("%+v", state)
	}
	for i := range webhook.MaxAttemptsLogged + 5 {
		if failures, err := e.store.Webhooks.RecordAttempt(t.Context(), id, webhook.Attempt{At: time.Now(), EventID: fmt.Sprintf("1-%d", i), Number: 1, Status: 204, Type: journal.MediaSealed, Duration: time.Second},
			webhook.Outcome{Accepted: true, Generation: 1}, time.Minute); err != nil || failures != 0 {
			t.Fatal(failures, err)
		}
	}
	if state := e.state("uid of a"); !state.FailingSince.IsZero() || state.LastError != "" || state.LastStatus != 204 || state.LastSuccess.IsZero() {
		t.Errorf("%+v", state)
	}
	attempts, err := e.store.Webhooks.Attempts(t.Context(), "uid of a")
	if err != nil || len(attempts) != webhook.MaxAttemptsLogged || attempts[0].EventID != "1-104" || attempts[0].Duration != time.Second || attempts[99].EventID != "1-5" {
		t.Errorf("%d attempts: %+v, %v", len(attempts), attempts[:1], err)
	}
	if _, err := e.store.Webhooks.RecordAttempt(t.Context(), uuid.New(), webhook.Attempt{At: time.Now()}, webhook.Outcome{}, time.Minute); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// A receiver that accepts again after a long time gets what is pending at once, and that attempt does not count. After a short failure, as of
// one that rejects some events, nothing is brought forward.
func TestRecordAttempt_BringsForwardAfterALongFailure(t *testing.T) {
	t.Parallel()
	for failing, want := range map[string]int64{"1 minute": 0, "10 minutes": 1} {
		e := newHookEnv(t)
		e.put(e.hook("a"))
		e.tell("one")
		e.sends(100, "one")
		exec(t, e.url, `UPDATE work SET due_at = now() + interval '2 hours', attempts = 4 WHERE kind = 'webhook'`)
		exec(t, e.url, `UPDATE webhook_progress SET failing_since = now() - $1::text::interval, failures = 3`, failing)
		must1(e.store.Webhooks.RecordAttempt(t.Context(), e.only(), webhook.Attempt{At: time.Now(), Status: 200}, webhook.Outcome{Accepted: true}, 5*time.Minute))(t)
		counts(t, e.url, want, "deliveries that are due after "+failing, `SELECT count(*) FROM work WHERE kind = 'webhook' AND due_at <= now() AND attempts = 3`)
	}
}

// A receiver that has ended its webhook gets nothing, until the object has another generation: then what is told from then on.
func TestRecordAttempt_GoneEndsTheGeneration(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	hook := e.hook("a")
	e.put(hook)
	e.tell("one")
	e.sends(100, "one")
	must1(e.store.Webhooks.RecordAttempt(t.Context(), e.only(), webhook.Attempt{At: time.Now(), Status: 410}, webhook.Outcome{Gone: true, Generation: 1}, time.Minute))(t)
	e.tell("two")
	if got := e.dispatch(100); len(got) != 0 {
		t.Errorf("%v is dispatched", got)
	}
	if state := e.state("uid of a"); !state.Ended || state.Pending != 0 {
		t.Errorf("%+v", state)
	}
	wait.Until(t, "the second event is behind all readers", func() bool { return len(events(t, e.store, e.account)) == 2 })
	hook.Generation = 2
	if state := e.put(hook); state.Ended || !state.FailingSince.IsZero() {
		t.Errorf("%+v", state)
	}
	e.tell("three")
	e.sends(100, "three")
}

// A receiver that is replaced while it answers does not end the webhook, nor what waits for its successor.
func TestRecordAttempt_GoneDoesNotEndALaterGeneration(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	hook := e.hook("a")
	e.put(hook)
	e.tell("one")
	e.sends(100, "one")
	hook.Generation, hook.URL = 2, "https://example.org/successor"
	e.put(hook)
	must1(e.store.Webhooks.RecordAttempt(t.Context(), e.only(), webhook.Attempt{At: time.Now(), Status: 410}, webhook.Outcome{Gone: true, Generation: 1}, time.Minute))(t)
	if state := e.state("uid of a"); state.Ended || state.Pending != 1 {
		t.Errorf("%+v", state)
	}
	e.tell("two")
	hook.Generation = 3
	e.put(hook)
	e.sends(100, "two")
}

// The generations of an object that is made again begin again: that of the one before which was ended says nothing about them.
func TestPutWebhook_OfAnObjectThatIsMadeAgainHasNotEnded(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	hook := e.hook("a")
	hook.Generation = 5
	e.put(hook)
	must1(e.store.Webhooks.RecordAttempt(t.Context(), e.only(), webhook.Attempt{At: time.Now(), Status: 410}, webhook.Outcome{Gone: true, Generation: 5}, time.Minute))(t)
	hook.Generation, hook.UID = 1, "a later uid"
	if state := e.put(hook); state.Ended {
		t.Errorf("%+v", state)
	}
	e.tell("one")
	e.sends(100, "one")
}

func TestWebhook_EndsWithItsAccount(t *testing.T) {
	t.Parallel()
	e := newHookEnv(t)
	e.put(e.hook("a"))
	e.tell("one")
	e.sends(100, "one")
	for _, sql := range []string{`DELETE FROM api_key WHERE account_id = $1`, `DELETE FROM app WHERE account_id = $1`, `DELETE FROM account WHERE id = $1`} {
		exec(t, e.url, sql, e.account)
	}
	counts(t, e.url, 0, "rows", `SELECT (SELECT count(*) FROM work WHERE kind = 'webhook') + (SELECT count(*) FROM webhook) + (SELECT count(*) FROM webhook_progress)`)
}

func must1[T any](_ T, err error) func(*testing.T) {
	return func(t *testing.T) { t.Helper(); must(t, err) }
}
