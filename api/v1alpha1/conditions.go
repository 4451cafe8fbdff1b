package v1alpha1

// Conditions of MediaAccount and MediaSettings. Every object carries all of its
// kind's conditions from the first reconcile on, in the shape that kstatus reads:
// wait for Ready to be True.
const (
	// ConditionReady is True when the whole object is as its spec says and can be
	// used. A suspended account is Ready with reason Suspended: being suspended is
	// what its spec says. False while anything is missing or out of reach; the
	// reason and the message are those of the part that stands in the way.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the spec, or
	// tries again after a failure that can pass by itself. False at rest.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the operator can't go on until somebody changes
	// something: the reason is Conflict or Invalid and the message says what to do.
	// The operator looks again on its timer, so a mended obstacle needs no touch of
	// the object.
	ConditionStalled = "Stalled"

	// ConditionBucketReady (MediaAccount) is True when the bucket exists and its
	// marker names this account; Unknown while that can't be told.
	ConditionBucketReady = "BucketReady"
	// ConditionAppsReady (MediaAccount) is True when the Default App and every app
	// of spec.apps is open, and no other.
	ConditionAppsReady = "AppsReady"
	// ConditionKeysReady (MediaAccount) is True when every app has a key and a
	// Secret that carries it.
	ConditionKeysReady = "KeysReady"
)

// Reasons of the conditions.
const (
	// ReasonSucceeded: the part is as the spec says. On Reconciling and Stalled, which
	// are False then, it means that there is nothing left to do.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing: the operator is working on it, or has not come to it yet.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: Ready, and serving nothing because spec.suspended says so.
	ReasonSuspended = "Suspended"
	// ReasonDatabaseUnavailable: PostgreSQL can't be reached; the operator tries again.
	ReasonDatabaseUnavailable = "DatabaseUnavailable"
	// ReasonObjectStoreUnavailable: the S3 store can't be reached; the operator tries again.
	ReasonObjectStoreUnavailable = "ObjectStoreUnavailable"
	// ReasonKubernetesUnavailable: the Kubernetes API refused or failed a request;
	// the operator tries again.
	ReasonKubernetesUnavailable = "KubernetesUnavailable"
	// ReasonInternalError: something unforeseen failed; the operator's log says what,
	// and it tries again.
	ReasonInternalError = "InternalError"
	// ReasonConflict: something that is not this object's stands in the way: a bucket
	// of another account, a Secret of the same name, an older MediaSettings.
	ReasonConflict = "Conflict"
	// ReasonInvalid: the spec can't be carried out; it has to be changed.
	ReasonInvalid = "Invalid"
	// ReasonAccountNotReady (MediaSettings): the MediaAccount that accountRef names
	// is missing, not provisioned yet, or being deleted.
	ReasonAccountNotReady = "AccountNotReady"
	// ReasonDeleting: the object is being deleted; the message shows the progress.
	ReasonDeleting = "Deleting"
)

// Finalizer keeps a MediaAccount or a MediaSettings until what was made for it
// outside the cluster has been taken back.
const Finalizer = "mediastack.dev/finalizer"

// Labels of the Secrets that carry API keys.
const (
	// LabelAccount holds the name of the MediaAccount that the Secret belongs to. The
	// operator watches Secrets with this label and no others.
	LabelAccount = "mediastack.dev/account"
	// LabelApp holds the name of the app that the Secret's key opens.
	LabelApp = "mediastack.dev/app"
)

// Keys of the data of a Secret that carries an API key.
const (
	// SecretAPIKey is the key in clear: "msk_" and 43 characters.
	SecretAPIKey = "apiKey"
	// SecretBaseURL is the base URL of the REST endpoints.
	SecretBaseURL = "baseURL"
	// SecretMCPURL is the URL of the MCP endpoint.
	SecretMCPURL = "mcpURL"
	// SecretAccountID is the account's id.
	SecretAccountID = "accountID"
	// SecretApp is the name of the app.
	SecretApp = "app"
)

// DefaultApp is the name of the app that every account has.
const DefaultApp = "default"

// SecretName is the name of the Secret with the API key of an app: the account's
// name, the app's name and "media", joined by dots ("demo.default.media"). Neither
// name can hold a dot, so no two apps of a namespace ever share a Secret.
func SecretName(account, app string) string { return account + "." + app + ".media" }
