package objectmetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
)

// counts are the numbers of one scrape.
type counts struct {
	now        time.Time
	kinds      map[string]*kindCounts
	conditions map[conditionLabels]int
	reclaims   map[v1alpha1.ReclaimPolicy]*retainedCounts

	keys, overlaps        int
	oldestKey, overdueKey time.Duration
}

type kindCounts struct {
	objects, deletions int
	oldestDeletion     time.Duration
}

type retainedCounts struct {
	accounts     int
	items, bytes int64
}

type conditionLabels struct{ kind, condition, status, reason string }

// newCounts returns counts of nothing, in which every series that an alert uses exists.
func newCounts(now time.Time) *counts {
	return &counts{
		now:        now,
		kinds:      map[string]*kindCounts{kindAccount: {}, kindSettings: {}, kindWebhook: {}, kindRetained: {}},
		conditions: map[conditionLabels]int{},
		reclaims:   map[v1alpha1.ReclaimPolicy]*retainedCounts{v1alpha1.ReclaimRetain: {}, v1alpha1.ReclaimPurge: {}},
	}
}

func (c *counts) account(object *v1alpha1.MediaAccount) {
	c.object(kindAccount, &object.ObjectMeta, object.Status.Conditions)
	rotateEvery := object.Spec.APIKeys.RotateEvery
	for i := range object.Status.Keys {
		key := &object.Status.Keys[i]
		if key.PreviousExpiresAt != nil && key.PreviousExpiresAt.After(c.now) {
			c.overlaps++
		}
		if key.CreatedAt == nil {
			continue
		}
		c.keys++
		age := c.now.Sub(key.CreatedAt.Time)
		c.oldestKey = max(c.oldestKey, age)
		// The keys of an account that is being deleted are not rotated.
		if rotateEvery != nil && object.DeletionTimestamp == nil {
			c.overdueKey = max(c.overdueKey, age-rotateEvery.Duration)
		}
	}
}

func (c *counts) settings(object *v1alpha1.MediaSettings) {
	c.object(kindSettings, &object.ObjectMeta, object.Status.Conditions)
}

func (c *counts) webhook(object *v1alpha1.MediaWebhook) {
	c.object(kindWebhook, &object.ObjectMeta, object.Status.Conditions)
}

func (c *counts) retained(object *v1alpha1.RetainedMediaAccount) {
	c.object(kindRetained, &object.ObjectMeta, object.Status.Conditions)
	if object.Spec.Reclaim == v1alpha1.ReclaimPurge && object.DeletionTimestamp == nil &&
		object.Status.PurgeAt != nil && !object.Status.PurgeAt.After(c.now) {
		c.deletion(kindRetained, object.Status.PurgeAt)
	}
	if sum := c.reclaims[object.Spec.Reclaim]; sum != nil {
		sum.accounts++
		sum.items += object.Status.Items
		sum.bytes += object.Status.Bytes
	}
}

func (c *counts) object(kind string, meta *metav1.ObjectMeta, conditions []metav1.Condition) {
	c.kinds[kind].objects++
	if meta.DeletionTimestamp != nil {
		c.deletion(kind, meta.DeletionTimestamp)
	}
	for i := range conditions {
		condition := &conditions[i]
		c.conditions[conditionLabels{kind, known(conditionTypes, condition.Type), known(conditionStatuses, string(condition.Status)), known(reasons, condition.Reason)}]++
	}
}

// deletion counts a deletion that was due at a time. A clock that is behind shows an age of 0.
func (c *counts) deletion(kind string, due *metav1.Time) {
	c.kinds[kind].deletions++
	c.kinds[kind].oldestDeletion = max(c.kinds[kind].oldestDeletion, c.now.Sub(due.Time))
}

// other is the label of a value that the operator does not write. A user who may change a status
// must not be able to add series.
const other = "Other"

func known(values map[string]bool, value string) string {
	if values[value] {
		return value
	}
	return other
}

func set(values ...string) map[string]bool {
	all := make(map[string]bool, len(values))
	for _, value := range values {
		all[value] = true
	}
	return all
}

// The values of the labels. A test compares them with package v1alpha1.
var (
	conditionTypes = set(
		v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
		v1alpha1.ConditionBucketReady, v1alpha1.ConditionAppsReady, v1alpha1.ConditionKeysReady, v1alpha1.ConditionStorageAvailable,
		v1alpha1.ConditionDelivering)
	conditionStatuses = set(string(metav1.ConditionTrue), string(metav1.ConditionFalse), string(metav1.ConditionUnknown))
	reasons           = set(
		v1alpha1.ReasonSucceeded, v1alpha1.ReasonProgressing, v1alpha1.ReasonSuspended,
		v1alpha1.ReasonDatabaseUnavailable, v1alpha1.ReasonObjectStoreUnavailable, v1alpha1.ReasonKubernetesUnavailable,
		v1alpha1.ReasonInternalError, v1alpha1.ReasonConflict, v1alpha1.ReasonInvalid, v1alpha1.ReasonAccountNotReady,
		v1alpha1.ReasonDeleting, v1alpha1.ReasonDeletionBlocked, v1alpha1.ReasonRetained, v1alpha1.ReasonMediaLost,
		v1alpha1.ReasonDatabaseCredentials, v1alpha1.ReasonDatabaseSchema, v1alpha1.ReasonDatabaseMissing, v1alpha1.ReasonDatabaseFull,
		v1alpha1.ReasonObjectStoreCredentials, v1alpha1.ReasonObjectStoreQuota, v1alpha1.ReasonObjectStoreUnsupported,
		v1alpha1.ReasonObjectStoreRegion, v1alpha1.ReasonObjectStoreClock,
		v1alpha1.ReasonKubernetesDenied, v1alpha1.ReasonGenerationLowered, v1alpha1.ReasonStorageNearFull, v1alpha1.ReasonStorageFull,
		v1alpha1.ReasonRuntimeUnavailable, v1alpha1.ReasonPurging,
		v1alpha1.ReasonLimitExceeded, v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonWaitingForRuntime, v1alpha1.ReasonWaitingForJournal,
		v1alpha1.ReasonFailing, v1alpha1.ReasonEnded, v1alpha1.ReasonMissed)
)

// export sends the counts as metrics.
func (c *counts) export(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for kind, numbers := range c.kinds {
		gauge(objectsDesc, float64(numbers.objects), kind)
		gauge(deletionsDesc, float64(numbers.deletions), kind)
		gauge(oldestDeletionDesc, numbers.oldestDeletion.Seconds(), kind)
	}
	for labels, number := range c.conditions {
		gauge(conditionsDesc, float64(number), labels.kind, labels.condition, labels.status, labels.reason)
	}
	gauge(keysDesc, float64(c.keys), "current")
	gauge(keysDesc, float64(c.overlaps), "overlap")
	gauge(oldestKeyDesc, c.oldestKey.Seconds())
	gauge(overdueKeyDesc, c.overdueKey.Seconds())
	for reclaim, sum := range c.reclaims {
		gauge(retainedDesc, float64(sum.accounts), string(reclaim))
		gauge(retainedItemsDesc, float64(sum.items), string(reclaim))
		gauge(retainedBytesDesc, float64(sum.bytes), string(reclaim))
	}
}
