package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EmailAddress is an e-mail address without a display name: a dot-atom (RFC 5322) and a
// domain in its ASCII form.
//
// +kubebuilder:validation:MinLength=3
// +kubebuilder:validation:MaxLength=254
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&\\'*+/=?^_`{|}~-]+([.][A-Za-z0-9!#$%&\\'*+/=?^_`{|}~-]+)*@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+$')",message="must be an e-mail address such as ana@example.org; e-mail addresses are ASCII: write an international domain as xn--..., and no other characters before the @"
type EmailAddress string

// DeletionPolicy says what becomes of an account's media when its MediaAccount is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

const (
	// DeletionRetain closes the account and revokes its keys; bucket and media stay.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete removes every item, every object and the bucket, for good.
	DeletionDelete DeletionPolicy = "Delete"
)

// BucketSpec chooses the account's bucket.
//
// +kubebuilder:validation:XValidation:rule="!has(self.adopt) || !self.adopt || has(self.name)",message="adopt needs the name of the bucket to take over",fieldPath=".adopt"
type BucketSpec struct {
	// Name of the bucket. Without it the operator derives one that is unique. It
	// can't be set, changed or removed once the account exists.
	//
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')",message="must be an S3 bucket name: 3 to 63 of a-z, 0-9, '-' and single dots, with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9]+([.][0-9]+){3}$') && !self.startsWith('xn--') && !self.startsWith('sthree-') && !self.startsWith('amzn-s3-demo-') && !self.endsWith('-s3alias') && !self.endsWith('--ol-s3') && !self.endsWith('.mrap') && !self.endsWith('--x-s3')",message="must not look like an IP address or use a prefix or suffix that S3 keeps for itself"
	Name string `json:"name,omitempty"`

	// Adopt takes over a bucket that exists already, holds objects and belongs to no
	// account. A bucket that another account has marked as its own is never taken.
	//
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// StorageSpec is where an account's media is kept and how much of it.
//
// +kubebuilder:validation:XValidation:rule="(has(self.bucket) && has(self.bucket.name)) == (has(oldSelf.bucket) && has(oldSelf.bucket.name)) && (!has(self.bucket) || !has(self.bucket.name) || self.bucket.name == oldSelf.bucket.name)",message="the bucket's name is fixed when the account is created: it can't be set, changed or removed later",fieldPath=".bucket"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUploadSize) || !has(self.maxStorage) || !isQuantity(string(self.maxUploadSize)) || !isQuantity(string(self.maxStorage)) || quantity(string(self.maxUploadSize)).compareTo(quantity(string(self.maxStorage))) <= 0",message="must not be larger than maxStorage",fieldPath=".maxUploadSize"
type StorageSpec struct {
	// MaxStorage is the cap: media, drafts and what is derived from them never take
	// more. Above 0 and at most 4Ei.
	//
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a quantity of bytes such as 10Gi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || (quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('4Ei')) <= 0)",message="must be above 0 and at most 4Ei"
	MaxStorage *resource.Quantity `json:"maxStorage,omitempty"`

	// MaxUploadSize is the largest single file. Above 0, at most 80000Mi (half of what an
	// S3 multipart upload of 10,000 parts of 16Mi holds) and at most maxStorage. Without
	// it, 2Gi counts, or maxStorage where that is smaller.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a quantity of bytes such as 2Gi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || (quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('80000Mi')) <= 0)",message="must be above 0 and at most 80000Mi"
	MaxUploadSize *resource.Quantity `json:"maxUploadSize,omitempty"`

	// Bucket chooses the bucket; without it the operator derives a name.
	//
	// +optional
	Bucket *BucketSpec `json:"bucket,omitempty"`
}

// AppSpec is a further app of an account, beside the Default App.
type AppSpec struct {
	// Name of the app: a DNS label.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="must be a DNS label: a-z, 0-9 and '-', with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="self != 'default'",message="the Default App always exists: leave it out of the list"
	Name string `json:"name"`
}

// APIKeysSpec steers the rotation of the account's API keys.
type APIKeysSpec struct {
	// Generation of the keys. Raise it to give every app a new key.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="can only be raised"
	Generation int64 `json:"generation,omitempty"`

	// Overlap is how long the old keys stay valid after a rotation, from 0s to 720h.
	//
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(h|m|s|ms))+$') && duration(self) <= duration('720h')",message="must be a duration from 0s to 720h, such as 24h or 1h30m"
	Overlap *metav1.Duration `json:"overlap,omitempty"`
}

// MCPTool names a tool of the MCP endpoint.
//
// +kubebuilder:validation:Enum=list_media;get_media;get_media_count;get_total_storage;seal_media;delete_media;upload_media;create_upload_signature;get_media_settings;update_media_settings
type MCPTool string

// MCPSpec limits what assistants may do.
type MCPSpec struct {
	// ReadOnly leaves assistants the tools that change nothing and hand out no
	// permission to.
	//
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// Tools are the only ones that assistants see and may use; without the list, all
	// are. Together with readOnly, both must permit a tool.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	Tools []MCPTool `json:"tools,omitempty"`
}

// MediaAccountSpec is what is wanted of an account.
type MediaAccountSpec struct {
	// DisplayName is the account's name for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="must not contain control characters"
	DisplayName string `json:"displayName,omitempty"`

	// Owners are the e-mail addresses that may log in. Case is ignored: two addresses
	// that differ in case only are one owner, and are refused beside each other.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.lowerAscii() == b.lowerAscii()))",message="must not contain two addresses that differ in case only: they are one owner"
	Owners []EmailAddress `json:"owners,omitempty"`

	// Storage is where the media is kept and how much of it.
	//
	// +optional
	// +kubebuilder:default={}
	Storage StorageSpec `json:"storage"`

	// DeletionPolicy says what becomes of the media when this object is deleted:
	// Retain keeps the bucket, Delete removes it.
	//
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Suspended keeps everything and serves nothing. Logins end for good.
	//
	// +optional
	Suspended bool `json:"suspended,omitempty"`

	// Apps are namespaces of items beside the Default App, each with its own key and
	// Secret. An app that is taken out is closed: its key stops, its items stay.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	Apps []AppSpec `json:"apps,omitempty"`

	// APIKeys steers the rotation of the API keys.
	//
	// +optional
	// +kubebuilder:default={}
	APIKeys APIKeysSpec `json:"apiKeys"`

	// MCP limits what assistants may do: every request to the MCP endpoint, and requests to
	// REST and TUS whose credential comes from a login (an access token, or an upload
	// signature made with one). REST and TUS requests with an API key are not limited.
	// Without it assistants may do everything that their key, or the scopes of their login,
	// permit.
	//
	// +optional
	MCP *MCPSpec `json:"mcp,omitempty"`
}

// EndpointsStatus is where the account's media service answers.
type EndpointsStatus struct {
	// REST is the base URL of the REST endpoints.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	REST string `json:"rest,omitempty"`

	// Resumable is the URL that TUS uploads are created at.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Resumable string `json:"resumable,omitempty"`

	// MCP is the URL of the MCP endpoint.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	MCP string `json:"mcp,omitempty"`
}

// KeyStatus describes the API key of one app. The key itself is in the Secret only.
type KeyStatus struct {
	// App that the key opens.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	App string `json:"app"`

	// SecretName is the Secret of this namespace that carries the key.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// Generation of spec.apiKeys that the key was made for.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`

	// CreatedAt is when the key was made.
	//
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// PreviousExpiresAt is when the last of the rotated keys stops; absent when no
	// older key is valid.
	//
	// +optional
	PreviousExpiresAt *metav1.Time `json:"previousExpiresAt,omitempty"`

	// LastUsedAt is when the key, or a login that stands for it, was last used. It is
	// refreshed with the usage.
	//
	// +optional
	LastUsedAt *metav1.Time `json:"lastUsedAt,omitempty"`
}

// UsageStatus is what the account holds, refreshed at a slow pace.
type UsageStatus struct {
	// Used is sealedBytes for people, rounded, such as 1.4Gi.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Used string `json:"used,omitempty"`

	// SealedBytes are the bytes of the sealed items' objects.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	SealedBytes int64 `json:"sealedBytes"`

	// SealedItems is the number of sealed items.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	SealedItems int64 `json:"sealedItems"`

	// DraftBytes are the bytes of the drafts' objects.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	DraftBytes int64 `json:"draftBytes"`

	// DraftItems is the number of drafts.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	DraftItems int64 `json:"draftItems"`

	// ReservedBytes are promised to uploads that are running.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	ReservedBytes int64 `json:"reservedBytes"`

	// MeasuredAt is when these figures were first seen; a later measurement with the
	// same result leaves it as it is.
	//
	// +required
	MeasuredAt metav1.Time `json:"measuredAt"`
}

// MediaAccountStatus is what the operator found.
type MediaAccountStatus struct {
	// ObservedGeneration is the last generation of the spec that was handled; -1
	// before the first.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Reconciling, Stalled, BucketReady, AppsReady and KeysReady.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// AccountID is the account's id, given once.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=36
	AccountID string `json:"accountID,omitempty"`

	// Bucket is the name of the account's bucket.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`

	// Endpoints is where the account's media service answers.
	//
	// +optional
	Endpoints *EndpointsStatus `json:"endpoints,omitempty"`

	// Keys describe the API key of every app.
	//
	// +optional
	// +listType=map
	// +listMapKey=app
	// +kubebuilder:validation:MaxItems=51
	Keys []KeyStatus `json:"keys,omitempty"`

	// Usage is what the account holds.
	//
	// +optional
	Usage *UsageStatus `json:"usage,omitempty"`
}

// MediaAccount gives a tenant a media service: a bucket, a Default App, an API key
// in a Secret, and endpoints to store, seal, list, serve and delete media with.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ma,categories=mediastack
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.suspended`
// +kubebuilder:selectablefield:JSONPath=`.status.accountID`
// +kubebuilder:selectablefield:JSONPath=`.status.bucket`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.usage.used`
// +kubebuilder:printcolumn:name="Max",type=string,JSONPath=`.spec.storage.maxStorage`
// +kubebuilder:printcolumn:name="Items",type=integer,JSONPath=`.status.usage.sealedItems`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')",message="metadata.name must be a DNS label: at most 63 of a-z, 0-9 and '-', with a letter or digit at both ends"
type MediaAccount struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the object; the name is a DNS label of at most 63 characters.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	//
	// +optional
	// +kubebuilder:default={}
	Spec MediaAccountSpec `json:"spec"`

	// Status is what the operator found.
	//
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MediaAccountStatus `json:"status,omitempty"`
}

// MediaAccountList is a list of accounts.
//
// +kubebuilder:object:root=true
type MediaAccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the accounts.
	Items []MediaAccount `json:"items"`
}
