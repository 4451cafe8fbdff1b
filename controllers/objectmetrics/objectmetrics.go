// Package objectmetrics exports metrics of the custom resources: their number, their conditions,
// pending deletions, the age of the API keys, and what the retained accounts hold. The operator's
// main registers its Collector, which reads the informer cache at every scrape.
package objectmetrics

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// scrapeTimeout bounds the lists of one scrape. The cache has its objects in memory, and only waits
// while it is filled for the first time.
const scrapeTimeout = 5 * time.Second

// Kinds, as the label kind has them.
const (
	kindAccount  = "MediaAccount"
	kindSettings = "MediaSettings"
	kindWebhook  = "MediaWebhook"
	kindRetained = "RetainedMediaAccount"
)

var (
	objectsDesc = prometheus.NewDesc("mediastack_operator_objects",
		"MediaAccounts, MediaSettings, MediaWebhooks and RetainedMediaAccounts, by kind.", []string{"kind"}, nil)
	conditionsDesc = prometheus.NewDesc("mediastack_operator_object_conditions",
		"Objects by kind, and by type, status and reason of a condition. A condition that the operator does not write is `Other`.", []string{"kind", "condition", "status", "reason"}, nil)
	deletionsDesc = prometheus.NewDesc("mediastack_operator_deletions_pending",
		"Objects that are being deleted, and retained accounts whose media is due for deletion, by kind.", []string{"kind"}, nil)
	oldestDeletionDesc = prometheus.NewDesc("mediastack_operator_oldest_deletion_age_seconds",
		"Time since the oldest pending deletion was due, by kind; 0 if none is pending.", []string{"kind"}, nil)
	keysDesc = prometheus.NewDesc("mediastack_operator_api_keys",
		"API keys by state: `current`, and apps whose previous key is still valid (`overlap`).", []string{"state"}, nil)
	oldestKeyDesc = prometheus.NewDesc("mediastack_operator_oldest_api_key_age_seconds",
		"Age of the oldest current API key; 0 if there is none.", nil, nil)
	overdueKeyDesc = prometheus.NewDesc("mediastack_operator_api_key_rotation_overdue_seconds",
		"How long the rotation of an API key is overdue (`spec.apiKeys.rotateEvery`), for the key that waits longest; 0 if none does.", nil, nil)
	retainedDesc = prometheus.NewDesc("mediastack_operator_retained_accounts",
		"Retained accounts by `spec.reclaim`: `Retain`, `Purge`.", []string{"reclaim"}, nil)
	retainedItemsDesc = prometheus.NewDesc("mediastack_operator_retained_items",
		"Sealed items of the retained accounts, by `spec.reclaim`.", []string{"reclaim"}, nil)
	retainedBytesDesc = prometheus.NewDesc("mediastack_operator_retained_bytes",
		"Bytes of the retained accounts, drafts included, by `spec.reclaim`.", []string{"reclaim"}, nil)
)

// Collector is a prometheus.Collector of the custom resources. Only the leader exports them, so
// that a sum over the replicas counts each object once.
type Collector struct {
	objects client.Reader
	elected <-chan struct{}
	now     func() time.Time
	log     *slog.Logger
}

// New returns a Collector that lists objects with a reader of the cache once elected is closed.
func New(objects client.Reader, elected <-chan struct{}, now func() time.Time, log *slog.Logger) *Collector {
	return &Collector{objects: objects, elected: elected, now: now, log: log}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		objectsDesc, conditionsDesc, deletionsDesc, oldestDeletionDesc, keysDesc, oldestKeyDesc, overdueKeyDesc,
		retainedDesc, retainedItemsDesc, retainedBytesDesc,
	} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. If a list fails, it exports nothing: a number that
// lacks objects would look like their deletion.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	select {
	case <-c.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	counted, err := c.count(ctx)
	if err != nil {
		c.log.Warn("the metrics of the objects are not exported", "error", err)
		return
	}
	counted.export(out)
}

// count lists the objects and counts them.
func (c *Collector) count(ctx context.Context) (*counts, error) {
	// The objects are only read here, so that they need not be copied out of the cache.
	shared := &client.ListOptions{UnsafeDisableDeepCopy: new(true)}
	counted := newCounts(c.now())
	var accounts v1alpha1.MediaAccountList
	if err := c.objects.List(ctx, &accounts, shared); err != nil {
		return nil, err
	}
	for i := range accounts.Items {
		counted.account(&accounts.Items[i])
	}
	var settings v1alpha1.MediaSettingsList
	if err := c.objects.List(ctx, &settings, shared); err != nil {
		return nil, err
	}
	for i := range settings.Items {
		counted.settings(&settings.Items[i])
	}
	var webhooks v1alpha1.MediaWebhookList
	if err := c.objects.List(ctx, &webhooks, shared); err != nil {
		return nil, err
	}
	for i := range webhooks.Items {
		counted.webhook(&webhooks.Items[i])
	}
	var retained v1alpha1.RetainedMediaAccountList
	if err := c.objects.List(ctx, &retained, shared); err != nil {
		return nil, err
	}
	for i := range retained.Items {
		counted.retained(&retained.Items[i])
	}
	return counted, nil
}
