package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WebhookAccountReference names a MediaAccount of the same namespace.
type WebhookAccountReference struct {
	// Name of the MediaAccount. It cannot be changed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; create another MediaWebhook for the other account"
	Name string `json:"name"`
}

// SecretKeyReference names an entry of a Secret of the same namespace.
type SecretKeyReference struct {
	// Name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Key of the entry.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// WebhookURLSource says where the URL is.
type WebhookURLSource struct {
	// SecretKeyRef names the entry of a Secret that is the URL.
	//
	// +required
	SecretKeyRef SecretKeyReference `json:"secretKeyRef"`
}

// WebhookSecretReference names a Secret of the tenant's making.
type WebhookSecretReference struct {
	// Name of the Secret, in this namespace.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Key of the entry with the secret.
	//
	// +optional
	// +kubebuilder:default=secret
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// WebhookSecretSpec says which secret signs the deliveries.
type WebhookSecretSpec struct {
	// Generation of the secret that the operator makes. Increasing it makes a new one, and the previous one signs, too, until the
	// overlap is over. Decreasing it, as a git revert does, changes nothing.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// Overlap is how long the previous secret signs after a rotation, from 0s to 168h.
	//
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(h|m|s|ms))+$') && duration(self) <= duration('168h')",message="must be a duration from 0s to 168h, such as 24h or 1h30m"
	Overlap *metav1.Duration `json:"overlap,omitempty"`

	// SecretRef names a Secret of the tenant's making, with the secret and, in a rotation, an entry previous: both sign while both are
	// there. Each is "whsec_" and the base64 of 24 to 64 bytes. The operator writes nothing into it. Without it, the operator makes a
	// Secret, whose name is in the status.
	//
	// +optional
	SecretRef *WebhookSecretReference `json:"secretRef,omitempty"`
}

// MediaWebhookSpec says which events are sent, and where.
//
// +kubebuilder:validation:XValidation:rule="has(self.accountRef) != (has(self.allAccounts) && self.allAccounts)",message="exactly one of accountRef and allAccounts: true is required"
// +kubebuilder:validation:XValidation:rule="has(self.accountRef) == has(oldSelf.accountRef)",message="accountRef and allAccounts cannot be exchanged; create another MediaWebhook"
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.urlFrom)",message="exactly one of url and urlFrom is required"
type MediaWebhookSpec struct {
	// AccountRef names the MediaAccount, in the same namespace, whose events are sent.
	//
	// +optional
	AccountRef *WebhookAccountReference `json:"accountRef,omitempty"`

	// AllAccounts sends the events of all accounts. It is possible in the namespace of the operator only.
	//
	// +optional
	AllAccounts bool `json:"allAccounts,omitempty"`

	// URL that receives the events: http or https, without a user and a fragment. Anyone who knows it may be able to send to it: with a
	// token in it, use urlFrom.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@[:space:][:cntrl:]]+([/?][^#[:space:][:cntrl:]]*)?$')",message="must be a URL such as https://hooks.example.org/media, without a user and a fragment"
	URL string `json:"url,omitempty"`

	// URLFrom names an entry of a Secret with the URL. The operator reads it at each reconcile, and at the pace of SERVICE_USAGE_INTERVAL.
	//
	// +optional
	URLFrom *WebhookURLSource `json:"urlFrom,omitempty"`

	// Types are the types of the events; all without it.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]+([._-][a-z]+)+$`
	Types []string `json:"types,omitempty"`

	// Apps are the names of apps. With it, only events of items of these apps are sent.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Apps []string `json:"apps,omitempty"`

	// Groups are those of items. With it, only events of items of these groups are sent.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Groups []string `json:"groups,omitempty"`

	// Format of the payload: standard is that of Standard Webhooks, cloudevents is CloudEvents 1.0 in structured mode.
	//
	// +optional
	// +kubebuilder:default=standard
	// +kubebuilder:validation:Enum=standard;cloudevents
	Format string `json:"format,omitempty"`

	// Secret is what signs the deliveries.
	//
	// +optional
	// +kubebuilder:default={}
	Secret WebhookSecretSpec `json:"secret,omitempty"`

	// Suspended keeps events until it is over, as long as the journal has them.
	//
	// +optional
	Suspended bool `json:"suspended,omitempty"`
}

// WebhookAttempt is one attempt at a delivery.
type WebhookAttempt struct {
	// At is when it began.
	//
	// +required
	At metav1.Time `json:"at"`

	// Event is the id of the event, which is the header Webhook-Id.
	//
	// +required
	// +kubebuilder:validation:MaxLength=128
	Event string `json:"event"`

	// Type of the event.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type,omitempty"`

	// Number of the attempt, from 1.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	Number int32 `json:"number"`

	// Status is the status code of the receiver; absent if there was no answer.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Status int32 `json:"status,omitempty"`

	// Error says why there was no answer.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Error string `json:"error,omitempty"`

	// DurationMilliseconds is how long it took.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	DurationMilliseconds int64 `json:"durationMilliseconds,omitempty"`
}

// WebhookLog are the last attempts, as the annotation mediastack.dev/show-log asks for.
type WebhookLog struct {
	// Request is the value of the annotation.
	//
	// +required
	// +kubebuilder:validation:MaxLength=63
	Request string `json:"request"`

	// Attempts are the last ones, the newest first.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Attempts []WebhookAttempt `json:"attempts,omitempty"`
}

// MediaWebhookStatus is the observed state.
type MediaWebhookStatus struct {
	// ObservedGeneration is the last generation of the spec that the operator handled, -1
	// before the first.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Reconciling, Stalled and Delivering.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Host of the URL. Path and query are not shown.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Host string `json:"host,omitempty"`

	// SecretName is the name of the Secret, in this namespace, with what signs the deliveries.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// Pending is the number of deliveries that wait or run. This number and the times of attempts are refreshed when something important
	// changes, and else at the pace of the usage of accounts.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending *int64 `json:"pending,omitempty"`

	// Full is true while more events wait in the journal, until there is room for their deliveries.
	//
	// +optional
	Full bool `json:"full,omitempty"`

	// Oldest is the time of the oldest event that is pending.
	//
	// +optional
	Oldest *metav1.Time `json:"oldest,omitempty"`

	// FailingSince is when the first attempt failed since the last one that the receiver accepted.
	//
	// +optional
	FailingSince *metav1.Time `json:"failingSince,omitempty"`

	// LastStatus is the status code of the last attempt; absent if there was no answer.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	LastStatus int32 `json:"lastStatus,omitempty"`

	// LastError says why the last attempt had no answer.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	LastError string `json:"lastError,omitempty"`

	// LastAttempt is the time of the last attempt.
	//
	// +optional
	LastAttempt *metav1.Time `json:"lastAttempt,omitempty"`

	// LastSuccess is the time of the last attempt that the receiver accepted.
	//
	// +optional
	LastSuccess *metav1.Time `json:"lastSuccess,omitempty"`

	// MissedUntil is until when events were not sent, since the journal did not have them anymore.
	//
	// +optional
	MissedUntil *metav1.Time `json:"missedUntil,omitempty"`

	// Ended is true if the receiver answered 410 to this generation of the spec.
	//
	// +optional
	Ended bool `json:"ended,omitempty"`

	// Tested is the value of the annotation mediastack.dev/send-test-event that was handled last.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Tested string `json:"tested,omitempty"`

	// Replayed is the value of the annotation mediastack.dev/replay that was handled last.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Replayed string `json:"replayed,omitempty"`

	// ReplayError says what was not sent again by the last replay, and why.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ReplayError string `json:"replayError,omitempty"`

	// RequestError says what is wrong with the annotations of a request. Nothing is done for them.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	RequestError string `json:"requestError,omitempty"`

	// Log are the last attempts, while the annotation mediastack.dev/show-log is there.
	//
	// +optional
	Log *WebhookLog `json:"log,omitempty"`
}

// MediaWebhook sends the events of an account to a URL. Deliveries follow Standard Webhooks: they are signed, and repeated until the receiver
// accepts them. An account with a MediaWebhook has a journal.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mediawebhooks,singular=mediawebhook,shortName=mwh,categories=mediastack
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Account",type=string,JSONPath=`.spec.accountRef.name`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.host`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Delivering",type=string,JSONPath=`.status.conditions[?(@.type=="Delivering")].status`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')",message="metadata.name must be a DNS label: at most 63 of a-z, 0-9 and '-', with a letter or digit at both ends"
type MediaWebhook struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the object.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	//
	// +required
	Spec MediaWebhookSpec `json:"spec"`

	// Status is the observed state.
	//
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MediaWebhookStatus `json:"status,omitempty"`
}

// MediaWebhookList is a list of MediaWebhooks.
//
// +kubebuilder:object:root=true
type MediaWebhookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the MediaWebhooks.
	Items []MediaWebhook `json:"items"`
}

// AccountName returns the name of the MediaAccount; empty for all accounts.
func (w *MediaWebhook) AccountName() string {
	if w.Spec.AccountRef == nil {
		return ""
	}
	return w.Spec.AccountRef.Name
}
