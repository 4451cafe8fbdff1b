package operator_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

// useDatabase makes the next operator use another database.
func (b *harness) useDatabase(url string) {
	b.t.Helper()
	var err error
	b.databaseURL = url
	b.database, err = postgres.Open(context.WithoutCancel(b.ctx), postgres.Config{DatabaseURL: url, DatabaseConns: 10, ConnectTimeout: far})
	must(b.t, err)
	b.t.Cleanup(b.database.Close)
	b.registry = account.NewRegistry(b.database.Accounts, b.config.BucketPrefix, time.Now)
	b.startRuntime()
}

// resume confirms a restore, as mediastack-runtime resume-after-restore --confirm does.
func (b *harness) resume() {
	b.t.Helper()
	resumer := installation.NewResumer(b.openStore().Installations, b.store, slog.New(slog.DiscardHandler))
	survey, err := resumer.Survey(b.ctx)
	must(b.t, err)
	_, err = resumer.Confirm(b.ctx, survey, 0)
	must(b.t, err)
}

// row returns the open account of a MediaAccount in the database.
func (b *harness) row(name string) account.Account {
	b.t.Helper()
	found, err := b.registry.Find(b.ctx, b.namespace, name)
	must(b.t, err)
	return found
}

// restoredChange is a change of the cluster after the backup of the database, and what it is
// after the restore. The guide "Backup and restore" has the same rows.
type restoredChange struct {
	name   string
	before func(a *v1alpha1.MediaAccount)
	// change is the change after the backup. It returns when the operator has applied it.
	change func(b *harness, object *v1alpha1.MediaAccount)
	// outcome checks what became of it. id is that of the account before the backup.
	outcome func(b *harness, object *v1alpha1.MediaAccount, id uuid.UUID, former []byte)
}

var restoredChanges = []restoredChange{
	{
		name: "rotated-with-overlap",
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			change(b, object, func(a *v1alpha1.MediaAccount) {
				a.Spec.APIKeys = v1alpha1.APIKeysSpec{Generation: 2, Overlap: &metav1.Duration{Duration: time.Hour}}
			})
			b.ready(object)
		},
		outcome: func(b *harness, object *v1alpha1.MediaAccount, _ uuid.UUID, former []byte) {
			wait.UntilNone(b.t, func() string {
				if !b.opens([]byte(b.apiKey(object.Name, "default"))) || !b.opens(former) {
					return "the key of the Secret, or the one in its overlap, does not work"
				}
				return ""
			})
		},
	},
	{
		name: "rotated-at-once",
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			change(b, object, func(a *v1alpha1.MediaAccount) {
				a.Spec.APIKeys = v1alpha1.APIKeysSpec{Generation: 2, Overlap: &metav1.Duration{}}
			})
			b.ready(object)
		},
		outcome: func(b *harness, object *v1alpha1.MediaAccount, _ uuid.UUID, former []byte) {
			wait.UntilNone(b.t, func() string {
				if !b.opens([]byte(b.apiKey(object.Name, "default"))) || b.opens(former) {
					return "the key of the Secret does not work, or the one that it replaced does"
				}
				return ""
			})
		},
	},
	{
		name: "suspended",
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Suspended = true })
			b.shows(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSuspended)
		},
		outcome: func(b *harness, object *v1alpha1.MediaAccount, _ uuid.UUID, _ []byte) {
			wait.UntilNone(b.t, func() string {
				if !b.row(object.Name).Suspended {
					return "the account is not suspended"
				}
				return ""
			})
		},
	},
	{
		name: "app-added",
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
			b.ready(object)
		},
		outcome: func(b *harness, object *v1alpha1.MediaAccount, _ uuid.UUID, _ []byte) {
			wait.UntilNone(b.t, func() string {
				if !b.opens([]byte(b.apiKey(object.Name, "web"))) {
					return "the app or its key did not come back"
				}
				return ""
			})
		},
	},
	{
		name:   "app-removed",
		before: func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} },
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Apps = nil })
			b.ready(object)
		},
		outcome: func(b *harness, _ *v1alpha1.MediaAccount, id uuid.UUID, _ []byte) {
			wait.UntilNone(b.t, func() string {
				if b.sql(`SELECT count(*) FROM api_key JOIN app ON app.id = api_key.app_id WHERE app.account_id = $1 AND app.name = 'web'
					AND (app.closed_at IS NULL OR api_key.expires_at IS NULL OR api_key.expires_at > now())`, id) > 0 {
					return "the removed app or its key is valid again"
				}
				return ""
			})
		},
	},
	{
		name: "cap-changed",
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Storage.MaxStorage = quantity("3Gi") })
			b.ready(object)
		},
		outcome: func(b *harness, object *v1alpha1.MediaAccount, _ uuid.UUID, _ []byte) {
			wait.UntilNone(b.t, func() string {
				if b.row(object.Name).MaxStorage != 3<<30 {
					return "the cap is that of the backup"
				}
				return ""
			})
		},
	},
	{
		name: "pinned",
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			b.ready(b.settings("pins-of-"+object.Name, object.Name, pinQuality(33)))
		},
		outcome: func(b *harness, _ *v1alpha1.MediaAccount, id uuid.UUID, _ []byte) {
			wait.UntilNone(b.t, func() string {
				if b.sql(`SELECT count(*) FROM settings_pin WHERE account_id = $1`, id) != 1 {
					return "the pins did not come back"
				}
				return ""
			})
		},
	},
	{
		name: "retained",
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			must(b.t, b.Delete(b.ctx, object))
			b.gone(object)
		},
		outcome: func(b *harness, _ *v1alpha1.MediaAccount, id uuid.UUID, former []byte) {
			b.retained(id)
			if b.opens(former) {
				b.t.Error("the key of a retained account works")
			}
		},
	},
	{
		name:   "deleted-with-its-media",
		before: erasedAtOnce,
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			must(b.t, b.Delete(b.ctx, object))
			b.gone(object)
		},
		outcome: func(b *harness, _ *v1alpha1.MediaAccount, id uuid.UUID, _ []byte) { b.retained(id) },
	},
	{
		name: "deleted-and-applied-again",
		change: func(b *harness, object *v1alpha1.MediaAccount) {
			must(b.t, b.Delete(b.ctx, object))
			b.gone(object)
			b.ready(b.account(object.Name))
		},
		outcome: func(b *harness, object *v1alpha1.MediaAccount, id uuid.UUID, _ []byte) {
			wait.UntilNone(b.t, func() string {
				found, err := b.registry.Find(b.ctx, b.namespace, object.Name)
				switch {
				case fault.Is(err, fault.NotFound):
					return "the account is closed"
				case err != nil || found.ID != id:
					b.t.Fatalf("the account is %+v, %v, want id %s", found, err, id)
				case !b.opens([]byte(b.apiKey(object.Name, "default"))):
					return "the key of the Secret does not work"
				}
				return ""
			})
		},
	},
}

// The database is restored to a time before changes of the cluster: the specs apply again, keys
// that a Secret proves are valid again, and nothing is lost.
func TestRestore_OutcomeOfEveryChangeOfTheClusterAfterTheBackup(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	objects, ids, former := map[string]*v1alpha1.MediaAccount{}, map[string]uuid.UUID{}, map[string][]byte{}
	for _, c := range restoredChanges {
		objects[c.name] = b.account(c.name, func(a *v1alpha1.MediaAccount) {
			if c.before != nil {
				c.before(a)
			}
		})
	}
	for _, c := range restoredChanges {
		b.ready(objects[c.name])
		ids[c.name], former[c.name] = b.accountID(objects[c.name]), []byte(b.apiKey(c.name, "default"))
	}
	backup := testenv.CopyDatabase(t, b.databaseURL)
	created, named := b.createdAfterTheBackup()
	for _, c := range restoredChanges {
		c.change(b, objects[c.name])
	}
	stop()

	b.useDatabase(backup)
	before := b.sql(`SELECT count(*) FROM account WHERE closed_at IS NULL`)
	b.run(b.config)
	wait.UntilNone(b.t, func() string {
		if state, err := b.database.Installations.Installation(b.ctx); err != nil || state.HoldReason == "" {
			return "the restored database is not on hold"
		}
		return ""
	})
	if open := b.sql(`SELECT count(*) FROM account WHERE closed_at IS NULL`); open != before {
		t.Errorf("%d accounts are open before the restore was confirmed, want %d", open, before)
	}
	b.resume()
	for _, c := range restoredChanges {
		c.outcome(b, objects[c.name], ids[c.name], former[c.name])
	}
	b.areUnknown(created, named)
}

// createdAfterTheBackup creates an account, and one that names its bucket, with an object each.
func (b *harness) createdAfterTheBackup() (created, named *v1alpha1.MediaAccount) {
	b.t.Helper()
	created = b.account("created")
	named = b.account("created-with-bucket", func(a *v1alpha1.MediaAccount) {
		a.Spec.Storage.Bucket = &v1alpha1.BucketSpec{Name: "named-" + b.namespace}
	})
	for _, object := range []*v1alpha1.MediaAccount{created, named} {
		b.ready(object)
		must(b.t, b.store.Put(b.ctx, object.Status.Bucket, "media/photo", "image/jpeg", strings.NewReader("bytes"), 5))
	}
	return created, named
}

// areUnknown checks what becomes of accounts that the restored database does not have: new
// accounts. The former buckets keep the media, and their markers name the former accounts.
func (b *harness) areUnknown(created, named *v1alpha1.MediaAccount) {
	b.t.Helper()
	buckets := map[string]string{created.Status.Bucket: created.Status.AccountID, named.Status.Bucket: named.Status.AccountID}
	for _, object := range []*v1alpha1.MediaAccount{created, named} {
		wait.UntilNone(b.t, func() string {
			if found, err := b.registry.Find(b.ctx, b.namespace, object.Name); err != nil || buckets[found.Bucket] == found.ID.String() {
				return "MediaAccount " + object.Name + " has no new account"
			}
			return ""
		})
	}
	b.ready(created)
	if created.Status.Usage.SealedItems != 0 || buckets[created.Status.Bucket] != "" {
		b.t.Errorf("the new account is %+v", created.Status)
	}
	b.shows(named, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	if message := meta.FindStatusCondition(named.Status.Conditions, v1alpha1.ConditionBucketReady).Message; !strings.Contains(message, "is owned by another account") {
		b.t.Errorf("the message does not say that there is a former account: %s", message)
	}
	for bucket, id := range buckets {
		if owner, err := b.store.Owner(b.ctx, bucket); err != nil || owner.AccountID != id {
			b.t.Errorf("bucket %s belongs to %+v, %v, want account %s", bucket, owner, err, id)
		}
	}
	// The guide: without the former marker, the MediaAccount may adopt the bucket.
	must(b.t, b.store.Remove(b.ctx, named.Status.Bucket, []string{objectstore.MarkerKey}))
	change(b, named, func(a *v1alpha1.MediaAccount) { a.Spec.Storage.Bucket.Adopt = true })
	b.ready(named)
	for bucket := range buckets {
		if _, err := b.store.Stat(b.ctx, bucket, "media/photo"); err != nil {
			b.t.Errorf("bucket %s lost its media: %v", bucket, err)
		}
	}
}
