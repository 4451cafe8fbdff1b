package operator_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/operator"
)

// With 10,000 accounts a replica held the lease for 5 seconds before its cache had the accounts. The
// manager takes part in the election when the kinds that are registered before its start have synced.
func TestCache_WatchesEveryKindBeforeTheElection(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	manager, err := operator.New(b.ctx, operatorAccess(t, b.plane), b.config, operator.Deps{
		Accounts: b.database.Accounts, Settings: b.database.Settings, Pictures: b.database.Pictures, Webhooks: b.database.Webhooks, Buckets: b.buckets, Runtimes: b.database.Installations, Installation: b.database.Installations, Markers: b.store, Now: time.Now, Log: testLog(t),
	})
	must(t, err)
	for _, list := range []client.ObjectList{&v1alpha1.MediaAccountList{}, &v1alpha1.MediaSettingsList{}, &v1alpha1.MediaWebhookList{}, &v1alpha1.RetainedMediaAccountList{}, &corev1.SecretList{}} {
		// A kind that is not registered is another error.
		var notStarted *cache.ErrCacheNotStarted
		if err := manager.GetCache().List(b.ctx, list); !errors.As(err, &notStarted) {
			t.Errorf("%T: %v", list, err)
		}
	}
}
