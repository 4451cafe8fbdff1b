package v1alpha1

// Conditions of MediaAccount, MediaSettings and MediaWebhook. Every object has all conditions of its kind
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
	// something; Reconciling is False then. The message says what to do. The operator checks
	// again on its timer, so the object itself need not be changed.
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
	// ConditionStorageAvailable (MediaAccount) is True while uploads fit under the storage cap.
	// It is False with reason StorageFull when nothing fits any more; the reason StorageNearFull
	// warns before. Ready does not depend on it: files can be read and deleted.
	ConditionStorageAvailable = "StorageAvailable"

	// ConditionDelivering (MediaWebhook) is True while the receiver accepts what is sent, or nothing was sent yet. It is False with reason
	// Failing, Ended, Suspended or Missed, and Unknown while the webhook is not stored. Ready does not depend on it: the receiver
	// is another system.
	ConditionDelivering = "Delivering"
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
	// ReasonAccountNotReady (MediaSettings, MediaWebhook): the MediaAccount in accountRef does not exist, is
	// not provisioned yet, or is being deleted.
	ReasonAccountNotReady = "AccountNotReady"
	// ReasonDeleting: the object is being deleted; the message shows the progress.
	ReasonDeleting = "Deleting"
	// ReasonDeletionBlocked: the deletion cannot continue, for example because the store denies
	// the removal of objects; the message names what is left.
	ReasonDeletionBlocked = "DeletionBlocked"
	// ReasonRetained: a RetainedMediaAccount has this namespace and name, and does not belong to
	// this object; the message names it and the command that binds it.
	ReasonRetained = "Retained"
	// ReasonMediaLost: the bucket of an account with items is missing or empty. Uploads are
	// rejected until the bucket is restored, or the loss is acknowledged by the annotation
	// mediastack.dev/acknowledge-media-loss.
	ReasonMediaLost = "MediaLost"
	// ReasonDatabaseCredentials: PostgreSQL rejects the credentials, or denies an operation.
	ReasonDatabaseCredentials = "DatabaseCredentialsInvalid"
	// ReasonDatabaseSchema: the schema of the database is not the one of this version.
	ReasonDatabaseSchema = "DatabaseSchemaMismatch"
	// ReasonDatabaseMissing: the database in the URL does not exist.
	ReasonDatabaseMissing = "DatabaseMissing"
	// ReasonDatabaseFull: PostgreSQL has no space left.
	ReasonDatabaseFull = "DatabaseFull"
	// ReasonObjectStoreRegion: the S3 store expects another region than the configured one. The message names both.
	ReasonObjectStoreRegion = "ObjectStoreRegionMismatch"
	// ReasonObjectStoreClock: the clocks of the operator and of the S3 store differ too much.
	ReasonObjectStoreClock = "ObjectStoreClockSkewed"
	// ReasonObjectStoreCredentials: the S3 store rejects the credentials, or denies an operation.
	ReasonObjectStoreCredentials = "ObjectStoreCredentialsInvalid"
	// ReasonObjectStoreQuota: the S3 store has no space left, or allows no more buckets.
	ReasonObjectStoreQuota = "ObjectStoreQuotaExceeded"
	// ReasonObjectStoreUnsupported: the S3 store lacks a function that the service needs.
	ReasonObjectStoreUnsupported = "ObjectStoreUnsupported"
	// ReasonKubernetesDenied: the API server denies a write: a quota, an admission policy, or
	// missing permissions. The message names the object.
	ReasonKubernetesDenied = "KubernetesDenied"
	// ReasonGenerationLowered (KeysReady, which is True): spec.apiKeys.generation is below that
	// of the current keys, which stay.
	ReasonGenerationLowered = "GenerationLowered"
	// ReasonStorageNearFull: 90 percent or more of the storage cap is used.
	ReasonStorageNearFull = "StorageNearFull"
	// ReasonStorageFull: the storage cap is reached or exceeded.
	ReasonStorageFull = "StorageFull"
	// ReasonRuntimeUnavailable: no replica of the runtime serves.
	ReasonRuntimeUnavailable = "RuntimeUnavailable"
	// ReasonPurging (RetainedMediaAccount): the media is being deleted.
	ReasonPurging = "Purging"
	// ReasonLimitExceeded (MediaWebhook): the account has more MediaWebhooks than allowed, and this is not one of the oldest.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonSecretNotFound (MediaWebhook): the Secret that the spec names, or its entry, does not exist; the operator looks again.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonWaitingForRuntime (MediaWebhook): no replica of the runtime has published the key by which the URL and the secret are
	// encrypted.
	ReasonWaitingForRuntime = "WaitingForRuntime"
	// ReasonWaitingForJournal (MediaWebhook): the account has no journal yet.
	ReasonWaitingForJournal = "WaitingForJournal"
	// ReasonFailing (Delivering): the last attempts failed.
	ReasonFailing = "Failing"
	// ReasonEnded (Delivering): the receiver answered 410 to this generation of the spec.
	ReasonEnded = "Ended"
	// ReasonMissed (Delivering): events were not sent, because the journal did not have them anymore.
	ReasonMissed = "Missed"
)
