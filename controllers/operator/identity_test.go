package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/installation"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
)

// record reads the ConfigMap of the installation; nil if there is none.
func (b *harness) record() *corev1.ConfigMap {
	b.t.Helper()
	found := &corev1.ConfigMap{}
	err := b.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: installation.ConfigMapName}, found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(b.t, err)
	return found
}

// writesNothing changes an account many times, and fails if the operator reacts: in the cluster,
// in the rows of a database, or in the object store.
func (b *harness) writesNothing(object *v1alpha1.MediaAccount, url string) {
	b.t.Helper()
	b.settle()
	before, requests, claims := rows(b.t, url), b.requests.snapshot(), b.buckets.snapshot()
	for round := range 20 {
		change(b, object, func(a *v1alpha1.MediaAccount) {
			a.Spec.DisplayName = fmt.Sprint("round ", round)
			a.Spec.APIKeys.Generation++
		})
	}
	version := object.ResourceVersion
	b.settle()
	must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
	if object.ResourceVersion != version {
		b.t.Errorf("the operator changed the object:\n%s", describe(object.Status.Conditions))
	}
	if !maps.Equal(before, rows(b.t, url)) {
		b.t.Error("the operator wrote rows")
	}
	if after := b.requests.snapshot(); !maps.Equal(requests, after) {
		b.t.Errorf("the operator sent requests: %v, before %v", after, requests)
	}
	if after := b.buckets.snapshot(); !maps.Equal(claims, after) {
		b.t.Errorf("the operator claimed buckets: %v, before %v", after, claims)
	}
}

// withProbes selects a port for the operator's probes.
func withProbes(port *int) func(*options) {
	return func(o *options) {
		o.config.HealthListen = fmt.Sprintf("127.0.0.1:%d", *port)
	}
}

func isReady(b *harness, port int) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		if status, body := probe(b.t, port, "/readyz"); status != http.StatusOK {
			return body
		}
		return ""
	})
}

// An operator that was pointed at an empty database, or at that of another installation, by
// mistake: before, it started every account anew and replaced every key.
func TestInstallation_AnotherDatabaseIsNotWritten(t *testing.T) {
	t.Parallel()
	port := testenv.FreePort(t)
	b := newHarness(t, withProbes(&port), func(o *options) { o.idle = true })
	stop := b.run(b.config)
	object := b.readyAccount("demo")
	key := b.secret("demo", "default").Data["apiKey"]
	known := b.record().Data
	stop()

	url := testenv.Postgres(t)
	config := postgres.Config{DatabaseURL: url}
	right := b.database
	var err error
	b.database, err = postgres.Open(context.WithoutCancel(b.ctx), config)
	must(t, err)
	t.Cleanup(b.database.Close)
	stop = b.run(b.config)
	notReady(t, b, port, known["installationID"], "SERVICE_DATABASE_URL", "mediastack-operator take-over")
	b.writesNothing(object, url)
	stop()

	// With the right database it goes on, with the same key until the rotation that the spec asks for.
	b.database = right
	b.run(b.config)
	isReady(b, port)
	b.ready(object)
	if !b.opens(key) || !maps.Equal(b.record().Data, known) {
		t.Errorf("the key or the ConfigMap %v changed", b.record().Data)
	}
}

// A database that was restored has an epoch before that in the ConfigMap.
func TestInstallation_RestoredDatabaseIsNotWritten(t *testing.T) {
	t.Parallel()
	port := testenv.FreePort(t)
	b := newHarness(t, withProbes(&port))
	object := b.readyAccount("demo")
	isReady(b, port)
	record := b.record()
	record.Data["epoch"] = "4"
	must(t, b.Update(b.ctx, record))
	notReady(t, b, port, "epoch is 1", "has epoch 4", "mediastack-runtime resume-after-restore")
	b.writesNothing(object, b.databaseURL)

	// What resume-after-restore writes.
	b.exec("UPDATE installation SET hold_reason = '', held_at = NULL, epoch = epoch + 1, heartbeat = heartbeat + 1, resumed_at = now()")
	isReady(b, port)
	b.ready(object)
	if epoch := b.record().Data["epoch"]; epoch != "5" {
		t.Errorf("the ConfigMap has epoch %s: it must follow the database", epoch)
	}
}

func TestInstallation_HoldIsObserved(t *testing.T) {
	t.Parallel()
	port := testenv.FreePort(t)
	b := newHarness(t, withProbes(&port))
	object := b.readyAccount("demo")
	must(t, b.database.Installations.Hold(b.ctx, "the database is a copy"))
	notReady(t, b, port, "on hold: the database is a copy", "resume-after-restore")
	b.writesNothing(object, b.databaseURL)
}

func TestInstallation_SchemaIsCheckedBothWays(t *testing.T) {
	t.Parallel()
	port := testenv.FreePort(t)
	b := newHarness(t, withProbes(&port), func(o *options) { o.idle = true })
	b.exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	b.run(b.config)
	notReady(t, b, port, "older than this program", "mediastack-runtime migrate")
	object := b.account("demo")
	b.writesNothing(object, b.databaseURL)
	must(t, postgres.Migrate(b.ctx, postgres.Config{DatabaseURL: b.databaseURL}, slog.New(slog.DiscardHandler)))
	isReady(b, port)
	b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)

	// That of the version after this one, while it is rolled out.
	b.exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
	b.shows(b.account("later"), v1alpha1.ConditionKeysReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	isReady(b, port)

	b.exec("UPDATE schema_compatibility SET oldest_program = 99999")
	notReady(t, b, port, "older than the database's schema", "99999")
	b.writesNothing(object, b.databaseURL)
	b.exec("UPDATE schema_compatibility SET oldest_program = 25")
	isReady(b, port)
}

func TestInstallation_ConfigMapIsWrittenAgain(t *testing.T) {
	t.Parallel()
	port := testenv.FreePort(t)
	b := newHarness(t, withProbes(&port))
	isReady(b, port)
	record := b.record()
	must(t, b.Delete(b.ctx, record))
	wait.UntilNone(b.t, func() string {
		if again := b.record(); again == nil || !maps.Equal(again.Data, record.Data) {
			return "the ConfigMap is not written again"
		}
		return ""
	})
	isReady(b, port)

	// One that was edited by hand stops the operator, and says what to do.
	for _, epoch := range []string{"many", "9223372036854775807"} {
		again := b.record()
		again.Data["epoch"] = epoch
		must(t, b.Update(b.ctx, again))
		notReady(t, b, port, "is not valid", "delete it")
		must(t, b.Delete(b.ctx, again))
		isReady(b, port)
	}
}

// A replica that starts while the database is away waits for it.
func TestInstallation_ReplicaWithoutADatabaseIsNotReady(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { return testenv.Database(t, server) }
		o.noRuntime = true
	})
	server.Stop()
	l := b.look(nil)
	for range 3 {
		must(t, l.Look(b.ctx))
	}
	if l.Ready(nil) == nil {
		t.Error("a replica that has never verified its installation is ready")
	}
	server.Start()
	wait.UntilNone(b.t, func() string {
		if err := errors.Join(l.Look(b.ctx), l.Ready(nil)); err != nil {
			return err.Error()
		}
		return ""
	})
}

// Of two clusters that start on one empty database, exactly one is bound.
func TestInstallation_OneOfTwoClustersIsBound(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.idle, o.noRuntime = true, true })
	other := newHarness(t, func(o *options) {
		o.idle, o.noRuntime, o.plane = true, true, kubetest.New
		o.databaseURL = func(testing.TB) string { return b.databaseURL }
	})
	looks := []*look{b.look(nil), other.look(nil), b.look(nil), other.look(nil)} // two replicas each
	ended := make(chan error)
	for _, l := range looks {
		go func() { ended <- l.Look(b.ctx) }()
	}
	for range looks {
		must(t, <-ended)
	}
	ready := [4]bool{}
	for i, l := range looks {
		must(t, l.Look(b.ctx))
		ready[i] = l.Ready(nil) == nil
	}
	if ready[0] == ready[1] || ready[2] != ready[0] || ready[3] != ready[1] {
		t.Errorf("the replicas of the first cluster are ready: %t, %t; of the second: %t, %t", ready[0], ready[2], ready[1], ready[3])
	}
	if (b.record() != nil) != ready[0] || (other.record() != nil) != ready[1] {
		t.Error("the cluster that was not bound has a ConfigMap")
	}
}

// A former leader that was stopped does not know that it lost its lease: the database rejects its
// writes, and its replica has to be elected again.
func TestLeader_ALaterTermRejectsTheWritesOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.idle, o.noRuntime = true, true })
	former, standby, next := b.look(isElected()), b.look(nil), b.look(isElected())
	write := func(l *look, name string) error {
		registry := account.NewRegistry(l.store.Accounts, "test-", time.Now)
		_, err := registry.Ensure(b.ctx, account.Spec{Namespace: "team", Name: name, MaxStorage: 1000, MaxUploadSize: 100})
		return err
	}
	must(t, former.Look(b.ctx))
	must(t, standby.Look(b.ctx))
	must(t, write(former, "before"))
	if standby.gate.IsOpen() || fault.ReasonOf(write(standby, "standby")) != fault.OtherInstallation {
		t.Error("a replica that was not elected writes")
	}

	must(t, next.Look(b.ctx))
	if err := write(former, "after"); fault.ReasonOf(err) != fault.OtherInstallation {
		t.Errorf("a write of the former leader: %v", err)
	}
	if former.gate.IsOpen() {
		t.Error("the gate of the former leader is open after a rejected write")
	}
	if err := former.Look(b.ctx); err == nil || former.gate.IsOpen() {
		t.Error("the former leader still leads:", err)
	}
	must(t, write(next, "after"))
	must(t, next.Look(b.ctx))
}
