package inventory

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// cacheTTL is how long the state is exported before a scrape reads it again.
	cacheTTL = time.Minute
	// readTimeout bounds a read: it is less than the timeout of a scrape, 10 s by default.
	readTimeout = 5 * time.Second
)

// Collector exports the state as one replica reads it, while the replica is the first one.
type Collector struct {
	store       Store
	replica     uuid.UUID
	maxAccounts int
	now         func() time.Time
	log         *slog.Logger
	failures    prometheus.Counter

	mu     sync.Mutex
	readAt time.Time
	state  *Inventory // nil: another replica exports it, or it cannot be read
	failed bool
}

// NewCollector returns a Collector of the replica with this id. It exports up to maxAccounts accounts
// on their own, and with 0 only the sums.
func NewCollector(store Store, replica uuid.UUID, maxAccounts int, now func() time.Time, log *slog.Logger) *Collector {
	return &Collector{store: store, replica: replica, maxAccounts: maxAccounts, now: now, log: log, failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mediastack_inventory_failures_total", Help: "Reads of the state of the installation that failed; its metrics are absent until one succeeds. Every replica exports it.",
	})}
}

// current returns the state, which it reads if that is due.
func (c *Collector) current() *Inventory {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.readAt.IsZero() && now.Sub(c.readAt) < cacheTTL {
		return c.state
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	state, err := c.read(ctx)
	c.readAt, c.state = now, state
	if err != nil {
		c.failures.Inc()
		if !c.failed {
			c.log.WarnContext(ctx, "the state of the installation cannot be read; its metrics are absent", "error", err)
		}
	}
	c.failed = err != nil
	return c.state
}

// read returns the state, nil if another replica exports it.
func (c *Collector) read(ctx context.Context) (*Inventory, error) {
	first, err := c.store.FirstRuntime(ctx)
	if err != nil || first != uuid.Nil && first != c.replica {
		return nil, err
	}
	state, err := c.store.Inventory(ctx, c.maxAccounts)
	if err != nil {
		return nil, err
	}
	return &state, nil
}

// accountLabels are the labels of the metrics of an account.
var accountLabels = []string{"account", "account_namespace", "account_name"}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Descriptions of the metrics.
var (
	storedBytesDesc    = describe("mediastack_account_stored_bytes", "Bytes of the sealed items of an account.", accountLabels...)
	storedItemsDesc    = describe("mediastack_account_stored_items", "Sealed items of an account.", accountLabels...)
	draftsDesc         = describe("mediastack_account_drafts", "Drafts of an account.", accountLabels...)
	usedBytesDesc      = describe("mediastack_account_used_bytes", "Bytes that count towards the cap of an account: of drafts, sealed items and renditions, and reserved by uploads.", accountLabels...)
	renditionBytesDesc = describe("mediastack_account_rendition_bytes", "Bytes of the renditions of an account, which the used bytes contain.", accountLabels...)
	capDesc            = describe("mediastack_account_cap_bytes", "The storage cap of an account (`maxStorage`); not for `other`.", accountLabels...)

	accountsDesc       = describe("mediastack_accounts", "Accounts by state: `open`, `suspended`, `closed` (and not erased).", "state")
	uploadsDesc        = describe("mediastack_uploads_open", "Running uploads: `single` (in one request), `resumable`.", "upload")
	oldestDraftDesc    = describe("mediastack_drafts_oldest_age_seconds", "Age of the oldest draft, from a confirmed restore on (`resume-after-restore`) if that was later; 0 without drafts. More than 25 h shows that the purge does not run.")
	allDraftsDesc      = describe("mediastack_drafts", "Drafts of all accounts.")
	allBytesDesc       = describe("mediastack_stored_bytes", "Bytes of the sealed items of all accounts.")
	allItemsDesc       = describe("mediastack_stored_items", "Sealed items of all accounts.")
	allUsedDesc        = describe("mediastack_used_bytes", "Bytes of drafts, sealed items and renditions of all accounts, and reserved by uploads.")
	allRenditionsDesc  = describe("mediastack_rendition_bytes", "Bytes of the renditions of all accounts, which the used bytes contain.")
	removalsDesc       = describe("mediastack_removals_pending", "Queued removals of objects.")
	failedRemovalsDesc = describe("mediastack_removals_failed", "Queued removals that have failed, and are repeated.")
	fetchesDesc        = describe("mediastack_fetch_waiting", "Uploads from a URL that wait for a slot.")
	fetchWaitDesc      = describe("mediastack_fetch_account_wait_seconds", "How long an account of which no upload from a URL runs has been waiting for its first one, at most; 0 if none waits.")
	tasksDesc          = describe("mediastack_work_tasks", "Tasks that wait or run, by kind.", "kind")
	failingTasksDesc   = describe("mediastack_work_failing", "Tasks whose last attempt failed, and that are tried again, by kind.", "kind")
	taskWaitDesc       = describe("mediastack_work_wait_seconds", "How long the oldest task that does not run has been due, by kind.", "kind")

	webhooksDesc        = describe("mediastack_webhooks", "Webhooks by state: `active`, `suspended`, `ended` (by the receiver).", "state")
	failingWebhooksDesc = describe("mediastack_webhooks_failing", "Active webhooks whose receiver has accepted nothing for an hour, although attempts were made.")

	purgeSuccessDesc   = describe("mediastack_purge_last_success_timestamp_seconds", "End of the last run of the purge that completed; absent before the first one.")
	purgeRunDesc       = describe("mediastack_purge_last_run_timestamp_seconds", "End of the last run of the purge; absent before the first one.")
	purgeDurationDesc  = describe("mediastack_purge_last_run_duration_seconds", "Duration of the last run of the purge; absent before the first one.")
	purgeAttentionDesc = describe("mediastack_purge_needs_attention", "1 if the last run of the purge had exit code 3: a removal fails again and again, a bucket was skipped, or the purge is held. Else 0.")
	purgeSkippedDesc   = describe("mediastack_purge_buckets_skipped", "Buckets that the last run of the purge skipped, because they belong to another account or installation.")
	purgeRunsDesc      = describe("mediastack_purge_runs_total", "Runs of the purge by outcome: `completed`, `failed`, `held` (nothing may be removed).", "outcome")
	purgeRemovedDesc   = describe("mediastack_purge_removed_total", "Rows that the purge removed: `drafts`, `deleted_items` (not restorable), `uploads`, `objects` (removals it carried out), `oauth_rows`, `api_keys`, `renditions` (stale, or of a process that died).", "kind")
	purgeFailuresDesc  = describe("mediastack_purge_removal_failures_total", "Removals of objects that failed in the purge.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) {
	c.failures.Describe(descriptions)
	for _, desc := range []*prometheus.Desc{storedBytesDesc, storedItemsDesc, draftsDesc, usedBytesDesc, renditionBytesDesc, capDesc, accountsDesc, uploadsDesc, oldestDraftDesc, allDraftsDesc, allBytesDesc, allItemsDesc, allUsedDesc, allRenditionsDesc,
		removalsDesc, failedRemovalsDesc, fetchesDesc, fetchWaitDesc, tasksDesc, failingTasksDesc, taskWaitDesc, webhooksDesc, failingWebhooksDesc, purgeSuccessDesc, purgeRunDesc, purgeDurationDesc, purgeAttentionDesc, purgeSkippedDesc, purgeRunsDesc, purgeRemovedDesc, purgeFailuresDesc} {
		descriptions <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	if state := c.current(); state != nil {
		e := exporter{metrics}
		e.exportStored(state.Stored, c.maxAccounts > 0)
		e.exportQueues(*state, c.now())
		e.exportPurge(state.Purge)
	}
	c.failures.Collect(metrics)
}

// exporter exports values.
type exporter struct{ metrics chan<- prometheus.Metric }

func (e exporter) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	e.metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func (e exporter) counter(desc *prometheus.Desc, value int64, labels ...string) {
	e.metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
}

func (e exporter) exportStored(stored []Stored, byAccount bool) {
	var all Stored
	for _, s := range stored {
		all.Drafts += s.Drafts
		all.Bytes += s.Bytes
		all.Items += s.Items
		all.UsedBytes += s.UsedBytes
		all.RenditionBytes += s.RenditionBytes
		if !byAccount {
			continue
		}
		labels := []string{"other", "", ""}
		if s.AccountID != uuid.Nil {
			labels = []string{s.AccountID.String(), s.Namespace, s.Name}
			e.gauge(capDesc, float64(s.MaxStorage), labels...)
		}
		e.gauge(storedBytesDesc, float64(s.Bytes), labels...)
		e.gauge(storedItemsDesc, float64(s.Items), labels...)
		e.gauge(draftsDesc, float64(s.Drafts), labels...)
		e.gauge(usedBytesDesc, float64(s.UsedBytes), labels...)
		e.gauge(renditionBytesDesc, float64(s.RenditionBytes), labels...)
	}
	e.gauge(allDraftsDesc, float64(all.Drafts))
	e.gauge(allBytesDesc, float64(all.Bytes))
	e.gauge(allItemsDesc, float64(all.Items))
	e.gauge(allUsedDesc, float64(all.UsedBytes))
	e.gauge(allRenditionsDesc, float64(all.RenditionBytes))
}

func (e exporter) exportQueues(state Inventory, now time.Time) {
	e.gauge(accountsDesc, float64(state.Accounts.Open), "open")
	e.gauge(accountsDesc, float64(state.Accounts.Suspended), "suspended")
	e.gauge(accountsDesc, float64(state.Accounts.Closed), "closed")
	e.gauge(uploadsDesc, float64(state.Queues.Uploads-state.Queues.ResumableUploads), "single")
	e.gauge(uploadsDesc, float64(state.Queues.ResumableUploads), "resumable")
	age := 0.0
	if state.OldestDraft != nil {
		age = max(0, now.Sub(*state.OldestDraft).Seconds())
	}
	e.gauge(oldestDraftDesc, age)
	e.gauge(removalsDesc, float64(state.Queues.Removals))
	e.gauge(failedRemovalsDesc, float64(state.Queues.RemovalsFailed))
	e.gauge(webhooksDesc, float64(state.Webhooks.Active), "active")
	e.gauge(webhooksDesc, float64(state.Webhooks.Suspended), "suspended")
	e.gauge(webhooksDesc, float64(state.Webhooks.Ended), "ended")
	e.gauge(failingWebhooksDesc, float64(state.Webhooks.Failing))
	e.gauge(fetchesDesc, float64(state.Queues.Fetches))
	e.gauge(fetchWaitDesc, max(0, state.Queues.FetchWaitSeconds))
	for _, work := range state.Work {
		e.gauge(tasksDesc, float64(work.Tasks), work.Kind)
		e.gauge(failingTasksDesc, float64(work.Failing), work.Kind)
		e.gauge(taskWaitDesc, max(0, work.WaitSeconds), work.Kind)
	}
}

func (e exporter) exportPurge(purge Purge) {
	if purge.Succeeded != nil {
		e.gauge(purgeSuccessDesc, seconds(*purge.Succeeded))
	}
	if purge.Started != nil && purge.Ended != nil {
		e.gauge(purgeRunDesc, seconds(*purge.Ended))
		e.gauge(purgeDurationDesc, purge.Ended.Sub(*purge.Started).Seconds())
	}
	attention := 0.0
	if purge.NeedsAttention {
		attention = 1
	}
	e.gauge(purgeAttentionDesc, attention)
	e.gauge(purgeSkippedDesc, float64(purge.BucketsSkipped))
	for _, outcome := range []PurgeOutcome{Completed, Failed, Held} {
		e.counter(purgeRunsDesc, purge.Runs[outcome], string(outcome))
	}
	for kind, removed := range map[string]int64{"drafts": purge.Drafts, "deleted_items": purge.DeletedItems, "uploads": purge.Uploads, "objects": purge.Removals, "oauth_rows": purge.OAuthRows, "api_keys": purge.APIKeys, "renditions": purge.Renditions} {
		e.counter(purgeRemovedDesc, removed, kind)
	}
	e.counter(purgeFailuresDesc, purge.RemovalsFailed)
}

// seconds returns a time as a metric has it.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
