package v1alpha1

// Conditions of MediaAccount and MediaSettings. Every object has all conditions of its kind
// from the first reconcile on. They follow kstatus: wait for Ready to be True.
const (
	// ConditionReady is True when the whole object matches its spec. A suspended account is
	// Ready with reason Suspended, since its spec says so. It is False while anything is
	// missing or cannot be reached; reason and message name the cause.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator applies the spec, or retries after a
	// failure.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the operator cannot continue until a user changes
	// something. The reason is Conflict or Invalid, and the message says what to do. The
	// operator checks again on its timer, so the object itself need not be changed.
	ConditionStalled = "Stalled"

	// ConditionBucketReady (MediaAccount) is True when the bucket exists and its marker names
	// this account. It is Unknown while the bucket cannot be checked.
	ConditionBucketReady = "BucketReady"
	// ConditionAppsReady (MediaAccount) is True when the Default App and the apps in spec.apps
	// are open, and no others.
	ConditionAppsReady = "AppsReady"
	// ConditionKeysReady (MediaAccount) is True when every app has a key and a Secret that
	// holds it.
	ConditionKeysReady = "KeysReady"
)

// Reasons of the conditions.
const (
	// ReasonSucceeded: the part matches the spec. On Reconciling and Stalled, which are False
	// then: nothing is left to do.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing: the operator has not finished, or not started.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: Ready, but requests are denied because spec.suspended is set.
	ReasonSuspended = "Suspended"
	// ReasonDatabaseUnavailable: PostgreSQL cannot be reached; the operator retries.
	ReasonDatabaseUnavailable = "DatabaseUnavailable"
	// ReasonObjectStoreUnavailable: the S3 store cannot be reached; the operator retries.
	ReasonObjectStoreUnavailable = "ObjectStoreUnavailable"
	// ReasonKubernetesUnavailable: a request to the Kubernetes API failed; the operator
	// retries.
	ReasonKubernetesUnavailable = "KubernetesUnavailable"
	// ReasonInternalError: an internal error, which the operator's log explains; the operator
	// retries.
	ReasonInternalError = "InternalError"
	// ReasonConflict: something else has the place: a bucket that belongs to another account, a
	// Secret of the same name, an older MediaSettings.
	ReasonConflict = "Conflict"
	// ReasonInvalid: the spec cannot be applied and has to be changed.
	ReasonInvalid = "Invalid"
	// ReasonAccountNotReady (MediaSettings): the MediaAccount in accountRef does not exist, is
	// not provisioned yet, or is being deleted.
	ReasonAccountNotReady = "AccountNotReady"
	// ReasonDeleting: the object is being deleted; the message shows the progress.
	ReasonDeleting = "Deleting"
)
