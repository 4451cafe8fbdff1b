package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/installation"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
	identity "mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/postgres"
)

// two are two clusters with one database and one object store.
type two struct {
	first, second *harness
	url           string
	s3Requests    *atomic.Int64 // of the second cluster
	port          int           // of the second operator's probes
}

// twoClusters starts the first operator, calls prepare, and starts an operator in a second
// cluster that has the same namespace.
func twoClusters(t *testing.T, prepare func(*harness), choose ...func(*options)) *two {
	t.Helper()
	url, access := testenv.Postgres(t), testenv.S3(t)
	c := &two{url: url, s3Requests: &atomic.Int64{}, port: testenv.FreePort(t)}
	shared := func(o *options) {
		o.databaseURL = func(testing.TB) string { return url }
		o.s3 = func(testing.TB) testenv.S3Access { return access }
		for _, change := range choose {
			change(o)
		}
	}
	c.first = newHarness(t, shared)
	prepare(c.first)
	c.second = newHarness(t, shared, func(o *options) {
		o.plane, o.namespace, o.noRuntime = kubetest.New, c.first.namespace, true
		o.config.HealthListen = fmt.Sprintf("127.0.0.1:%d", c.port)
		o.s3 = func(testing.TB) testenv.S3Access {
			return testenv.S3Proxy(t, access, func(http.ResponseWriter, *http.Request) bool { c.s3Requests.Add(1); return false })
		}
	})
	return c
}

// copyTo creates the accounts and settings of the first cluster in the second one, as Git would.
func (c *two) copyTo() {
	t := c.first.t
	t.Helper()
	accounts, settings := &v1alpha1.MediaAccountList{}, &v1alpha1.MediaSettingsList{}
	must(t, c.first.List(c.first.ctx, accounts, client.InNamespace(c.first.namespace)))
	must(t, c.first.List(c.first.ctx, settings, client.InNamespace(c.first.namespace)))
	for _, a := range accounts.Items {
		must(t, c.second.Create(c.second.ctx, &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}, Spec: a.Spec}))
	}
	for _, s := range settings.Items {
		must(t, c.second.Create(c.second.ctx, &v1alpha1.MediaSettings{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Spec: s.Spec}))
	}
}

// notReady waits until the operator at a port is not ready, and returns the reason.
func notReady(t *testing.T, b *harness, port int, says ...string) {
	t.Helper()
	wait.UntilNone(b.t, func() string {
		status, body := probe(t, port, "/readyz/installation")
		for _, text := range says {
			if !strings.Contains(body, text) {
				return fmt.Sprintf("the operator answers %d, %q, without %q", status, body, text)
			}
		}
		if whole, _ := probe(t, port, "/readyz"); status != http.StatusInternalServerError || whole != http.StatusInternalServerError {
			return fmt.Sprintf("the operator answers %d and %d", whole, status)
		}
		return ""
	})
}

func probe(t *testing.T, port int, path string) (int, string) {
	t.Helper()
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

// rows returns the versions of all rows of the tables that operators write: every write of a row
// changes it.
func rows(t *testing.T, url string) map[string]string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	found, err := conn.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'runtime_instance'")
	must(t, err)
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	must(t, err)
	versions := map[string]string{}
	for _, table := range tables {
		var all string
		must(t, conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(xmin::text || ctid::text, ' ' ORDER BY ctid), '') FROM `+pgx.Identifier{table}.Sanitize()).Scan(&all))
		versions[table] = all
	}
	return versions
}

// untouched fails if an operator wrote anything in a cluster: the objects are as their last writer
// left them, and there are no Secrets and no events.
func (b *harness) untouched() {
	b.t.Helper()
	for request, count := range b.requests.snapshot() {
		if method, _, _ := strings.Cut(request, " "); method != http.MethodGet {
			b.t.Errorf("the operator sent %d requests %s", count, request)
		}
	}
	accounts, secrets := &v1alpha1.MediaAccountList{}, &corev1.SecretList{}
	must(b.t, b.List(b.ctx, accounts, client.InNamespace(b.namespace)))
	must(b.t, b.List(b.ctx, secrets, client.InNamespace(b.namespace)))
	for _, a := range accounts.Items {
		if len(a.Status.Conditions) > 0 || a.Status.AccountID != "" || (a.DeletionTimestamp.IsZero() && len(a.Finalizers) > 0) {
			b.t.Errorf("MediaAccount %s has a status or a finalizer", a.Name)
		}
	}
	if len(secrets.Items) > 0 {
		b.t.Errorf("there are %d Secrets", len(secrets.Items))
	}
	if events := b.events(); len(events) > 0 {
		b.t.Errorf("there are %d events, such as %s", len(events), events[0].Reason)
	}
}

// openStore opens the test's database as another process does.
func (b *harness) openStore() *postgres.Store {
	b.t.Helper()
	store, err := postgres.Open(context.WithoutCancel(b.ctx), postgres.Config{DatabaseURL: b.databaseURL})
	must(b.t, err)
	b.t.Cleanup(store.Close)
	return store
}

// look is a Verifier with a gate and a database pool of its own, as another replica has.
type look struct {
	*installation.Verifier
	gate  *reconcile.Gate
	store *postgres.Store
}

func (b *harness) look(elected <-chan struct{}) *look {
	b.t.Helper()
	l := &look{gate: reconcile.NewGate(), store: b.openStore()}
	var err error
	l.Verifier, err = installation.NewVerifier(
		installation.Config{Config: identity.Config{CheckInterval: time.Second, HeartbeatInterval: time.Minute}, Namespace: b.namespace},
		installation.Deps{Kube: operatorAccess(b.t, b.plane), Store: l.store.Installations, Markers: b.store, Gate: l.gate, Elected: elected, Log: testLog(b.t)})
	must(b.t, err)
	return l
}

// isElected returns the channel of a replica that was elected; a replica with nil never is.
func isElected() <-chan struct{} {
	elected := make(chan struct{})
	close(elected)
	return elected
}

// staysClosed compares as often as an operator does in ten minutes.
func (b *harness) staysClosed(l *look) {
	b.t.Helper()
	const tenMinutes = 40
	for range tenMinutes {
		if err := l.Look(b.ctx); err != nil || l.gate.IsOpen() {
			b.t.Fatal("the gate opened")
		}
	}
}

// Tried before: a second cluster on the same database ended the first one's key in 0.3 s, and a
// deletion there erased the first one's rows and bucket.
func TestTwoClusters_TheSecondOneWritesNothing(t *testing.T) {
	t.Parallel()
	keys := map[string][]byte{}
	c := twoClusters(t, func(b *harness) {
		object, kept := b.account("demo", deleting), b.account("kept")
		b.ready(object)
		b.ready(kept)
		b.ready(b.settings("site", "demo"))
		for _, name := range []string{"demo", "kept"} {
			keys[name] = b.secret(name, "default").Data["apiKey"]
		}
	})
	notReady(t, c.second, c.port, "is bound to cluster", "mediastack-operator take-over")
	c.first.settle()
	before, events := rows(t, c.url), len(c.first.events())
	delete(before, "installation") // the first operator writes its heartbeat

	c.copyTo()
	replica := c.second.look(isElected())
	for round := range 20 {
		for _, name := range []string{"demo", "kept"} {
			object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.second.namespace, Name: name}}
			change(c.second, object, func(a *v1alpha1.MediaAccount) {
				a.Spec.DisplayName = fmt.Sprint("round ", round)
				a.Spec.APIKeys.Generation = int64(round + 2)
			})
		}
	}
	c.second.staysClosed(replica)
	demo := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.second.namespace, Name: "demo"}}
	change(c.second, demo, func(a *v1alpha1.MediaAccount) { a.Finalizers = []string{v1alpha1.Finalizer} }) // as from a backup of the cluster
	for _, object := range []client.Object{
		demo,
		&v1alpha1.MediaSettings{ObjectMeta: metav1.ObjectMeta{Namespace: c.second.namespace, Name: "site"}},
	} {
		must(t, c.second.Delete(c.second.ctx, object))
	}
	c.second.staysClosed(replica)
	must(t, c.second.Get(c.second.ctx, client.ObjectKeyFromObject(demo), demo)) // it waits for its operator

	after := rows(t, c.url)
	delete(after, "installation")
	if !maps.Equal(before, after) {
		for table := range before {
			if before[table] != after[table] {
				t.Errorf("rows of table %s were written", table)
			}
		}
	}
	c.second.untouched()
	if got := c.s3Requests.Load(); got != 0 {
		t.Errorf("the second operator sent %d requests to the object store", got)
	}
	for name, key := range keys {
		if !c.first.opens(key) || !bytes.Equal(c.first.secret(name, "default").Data["apiKey"], key) {
			t.Errorf("the key of %s changed", name)
		}
	}
	if now := len(c.first.events()); now != events {
		t.Errorf("the first cluster has %d events more", now-events)
	}
}

// takeOver runs the command in a cluster and returns its lines.
func (b *harness) takeOver(confirm bool) (lines []map[string]any, needed bool) {
	b.t.Helper()
	var out bytes.Buffer
	command, err := installation.NewTakeover(b.plane.Access(), b.namespace, b.openStore().Installations, &out)
	must(b.t, err)
	needed, err = command.Run(b.ctx, confirm)
	must(b.t, err)
	for line := range strings.Lines(out.String()) {
		var decoded map[string]any
		must(b.t, json.Unmarshal([]byte(line), &decoded))
		lines = append(lines, decoded)
	}
	return lines, needed
}

// A rebuilt cluster beside a surviving database: one command binds all accounts, and no key ends.
func TestTakeOver_BindsAllAccountsAndEndsNoKey(t *testing.T) {
	accounts := size(40, 200)
	slow := func(o *options) { o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour }
	keys, ids := map[string][]byte{}, map[string]string{}
	c := twoClusters(t, func(b *harness) {
		for i := range accounts {
			b.account(fmt.Sprintf("account-%d", i))
		}
		for i := range accounts {
			object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: fmt.Sprintf("account-%d", i)}}
			b.ready(object)
			keys[object.Name], ids[object.Name] = b.secret(object.Name, "default").Data["apiKey"], object.Status.AccountID
		}
	}, slow)
	c.copyTo()
	must(t, c.second.Delete(c.second.ctx, &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.second.namespace, Name: "account-0"}}))
	notReady(t, c.second, c.port, "mediastack-operator take-over")
	c.first.settle()

	before := rows(t, c.url)
	lines, needed := c.second.takeOver(false)
	summary := lines[len(lines)-1]
	if !needed || len(lines) != accounts+1 || summary["accounts"] != float64(accounts) || summary["withoutMediaAccount"] != 1.0 || summary["done"] != false {
		t.Errorf("the report has %d lines, needed: %t; the summary is %v", len(lines), needed, summary)
	}
	for _, line := range lines[:accounts] {
		name := strings.TrimPrefix(line["account"].(string), c.second.namespace+"/")
		if line["id"] != ids[name] || line["mediaAccount"] != (name != "account-0") {
			t.Errorf("a line is %v, want id %s", line, ids[name])
		}
	}
	after := rows(t, c.url)
	delete(before, "installation") // the first operator writes its heartbeat
	delete(after, "installation")
	if !maps.Equal(before, after) {
		t.Error("the report wrote rows")
	}
	c.second.untouched()

	lines, needed = c.second.takeOver(true)
	if summary = lines[len(lines)-1]; needed || summary["done"] != true || summary["boundCluster"] != summary["thisCluster"] || summary["epoch"] != 2.0 {
		t.Errorf("the summary is %v", summary)
	}
	c.first.isFenced("account-1")
	for i := 1; i < accounts; i++ {
		object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.second.namespace, Name: fmt.Sprintf("account-%d", i)}}
		c.second.ready(object)
		if object.Status.AccountID != ids[object.Name] {
			t.Errorf("%s has account %s, want %s", object.Name, object.Status.AccountID, ids[object.Name])
		}
		if !c.second.opens(c.second.secret(object.Name, "default").Data["apiKey"]) {
			t.Errorf("the new key of %s does not open the account", object.Name)
		}
	}
	for name, key := range keys {
		if !c.second.opens(key) {
			t.Errorf("the key that the first cluster had issued for %s ended", name)
		}
	}
	if lines, needed = c.second.takeOver(true); needed || len(lines) != 1 {
		t.Errorf("a second take-over does something: %v", lines)
	}
}

// isFenced changes an account in a cluster that lost its database, and fails if that has any effect.
func (b *harness) isFenced(name string) {
	b.t.Helper()
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.DisplayName = "written by the first cluster" })
	version := object.ResourceVersion
	b.settle()
	must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
	if object.ResourceVersion != version {
		b.t.Errorf("the first cluster's operator wrote a status:\n%s", describe(object.Status.Conditions))
	}
	found, err := b.registry.Find(b.ctx, b.namespace, name)
	must(b.t, err)
	if found.DisplayName != "" {
		b.t.Error("the first cluster's operator wrote a row")
	}
}
