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
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&\\'*+/=?^_`{|}~-]+([.][A-Za-z0-9!#$%&\\'*+/=?^_`{|}~-]+)*@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+$')",message="must be an e-mail address such as ana@example.org; e-mail addresses are ASCII: write an international domain as xn--..., with ASCII characters before the @"
type EmailAddress string

// DeletionPolicy determines what happens to the media when a MediaAccount is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

const (
	// DeletionRetain closes the account and revokes its keys. The bucket and the media stay,
	// and a RetainedMediaAccount names them.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete permanently deletes every item, every object and the bucket, after
	// spec.deleteAfter.
	DeletionDelete DeletionPolicy = "Delete"
)

// BucketSpec selects the account's bucket.
//
// +kubebuilder:validation:XValidation:rule="!has(self.adopt) || !self.adopt || has(self.name)",message="adopt requires the name of an existing bucket",fieldPath=".adopt"
type BucketSpec struct {
	// Name of the bucket. If it is omitted, the operator generates a unique name. It cannot be
	// set, changed or removed after the account was created.
	//
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')",message="must be an S3 bucket name: 3 to 63 of a-z, 0-9, '-' and single dots, with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9]+([.][0-9]+){3}$') && !self.startsWith('xn--') && !self.startsWith('sthree-') && !self.startsWith('amzn-s3-demo-') && !self.endsWith('-s3alias') && !self.endsWith('--ol-s3') && !self.endsWith('.mrap') && !self.endsWith('--x-s3')",message="must not look like an IP address or use a prefix or suffix that S3 reserves"
	Name string `json:"name,omitempty"`

	// Adopt allows the use of an existing bucket that contains objects and has no owner. A
	// bucket with the marker of another account is never adopted.
	//
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// StorageSpec configures the storage of an account and its limits.
//
// +kubebuilder:validation:XValidation:rule="(has(self.bucket) && has(self.bucket.name)) == (has(oldSelf.bucket) && has(oldSelf.bucket.name)) && (!has(self.bucket) || !has(self.bucket.name) || self.bucket.name == oldSelf.bucket.name)",message="the bucket's name cannot be set, changed or removed after the account was created",fieldPath=".bucket"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUploadSize) || !has(self.maxStorage) || !isQuantity(string(self.maxUploadSize)) || !isQuantity(string(self.maxStorage)) || quantity(string(self.maxUploadSize)).compareTo(quantity(string(self.maxStorage))) <= 0",message="must not be larger than maxStorage",fieldPath=".maxUploadSize"
type StorageSpec struct {
	// MaxStorage is the storage quota: the maximum size of all items and drafts, including
	// thumbnails and conversions. At least 1Mi and at most 4Ei.
	//
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a quantity of bytes such as 10Gi"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[num]$')",message="must be a whole number of bytes",messageExpression="'must be a whole number of bytes: ' + string(self) + (string(self).endsWith('m') ? ' is in thousandths; did you mean ' + string(self).upperAscii() + '?' : ' is a fraction')"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || (quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('4Ei')) <= 0)",message="must be at least 1Mi and at most 4Ei"
	MaxStorage *resource.Quantity `json:"maxStorage,omitempty"`

	// MaxUploadSize is the maximum size of a file. Above 0, at most maxStorage, and at most
	// 80000Mi, an S3 multipart upload of 10,000 parts of 8Mi. The default is 2Gi, or
	// maxStorage if that is smaller.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a quantity of bytes such as 2Gi"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[num]$')",message="must be a whole number of bytes",messageExpression="'must be a whole number of bytes: ' + string(self) + (string(self).endsWith('m') ? ' is in thousandths; did you mean ' + string(self).upperAscii() + '?' : ' is a fraction')"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || (quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('80000Mi')) <= 0)",message="must be above 0 and at most 80000Mi"
	MaxUploadSize *resource.Quantity `json:"maxUploadSize,omitempty"`

	// Bucket selects the bucket. If it is omitted, the operator creates one with a unique name.
	//
	// +optional
	Bucket *BucketSpec `json:"bucket,omitempty"`
}

// AppSpec is an app of an account in addition to the Default App.
type AppSpec struct {
	// Name of the app: a DNS label.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="must be a DNS label: a-z, 0-9 and '-', with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="self != 'default'",message="the Default App always exists; remove it from the list"
	Name string `json:"name"`
}

// MCPSpec is the tool policy of an account.
//
// +kubebuilder:validation:XValidation:rule="!has(self.readOnly) || !self.readOnly || !has(self.tools) || self.tools.exists(t, t in ['list_media', 'get_media', 'get_media_count', 'get_total_storage', 'get_upload_from_url', 'get_media_settings', 'search_media', 'list_drafts', 'list_groups', 'list_metadata_keys', 'list_deleted_media', 'list_activity', 'get_upload', 'view_media'])",message="with readOnly none of these tools is left: add one that changes nothing, such as list_media, or remove readOnly",fieldPath=".tools"
// +kubebuilder:validation:XValidation:rule="!has(self.readOnly) || !self.readOnly || !has(self.toolsets) || self.toolsets.exists(s, s in ['core', 'fetch', 'find', 'undo', 'activity', 'handover', 'see'])",message="with readOnly none of these toolsets has a tool left: add one that has tools which change nothing, such as core, or remove readOnly",fieldPath=".toolsets"
type MCPSpec struct {
	// Toolsets lists the sets of tools that assistants get: a tool of another set is neither listed
	// nor callable. core are the ten basic tools; if the list is omitted, it is core alone. Keep the list short: each tool takes a part of what
	// a model can attend to. A tool must be in a toolset and be allowed by tools and readOnly.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Toolsets []MCPToolset `json:"toolsets,omitempty"`

	// ReadOnly allows only tools that change nothing and create no upload signature.
	//
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// Tools lists the allowed tools; other tools are neither listed nor callable. If it is
	// omitted, all tools are allowed. A tool must be allowed by both tools and readOnly.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Tools []MCPTool `json:"tools,omitempty"`

	// Approval has changes wait until an owner has allowed them on a page, with a login of the owner. It applies to assistants and connected
	// applications. If it is omitted, nothing waits.
	//
	// +optional
	Approval *MCPApprovalSpec `json:"approval,omitempty"`

	// Ceilings bound what assistants and connected applications do. If it is omitted, nothing is bounded.
	//
	// +optional
	Ceilings *MCPCeilingsSpec `json:"ceilings,omitempty"`
}

// Origin is a web origin, such as https://app.example.org, or a pattern for all its subdomains
// (https://*.example.org) or ports (http://localhost:*).
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([*][.])?[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:([*]|[1-9][0-9]{0,4}))?$')",message="must be an origin such as https://app.example.org, https://*.example.org or http://localhost:*, in lower case and without a path"
type Origin string

// CORSSpec selects the web pages that may call the service for an account.
type CORSSpec struct {
	// Origins lists the web origins whose pages may call for the account, with any of its
	// credentials; a request of a page of another origin is answered 403. An empty list allows no
	// page. Pages of every origin may read files.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Origins []Origin `json:"origins"`
}

// UndoFor says whose deletes can be undone.
//
// +kubebuilder:validation:Enum=Agents;Everyone
type UndoFor string

// The values of UndoFor.
const (
	// UndoForAgents covers assistants and connected applications: all deletes at the MCP endpoint,
	// and those with a credential from a login over REST.
	UndoForAgents UndoFor = "Agents"
	// UndoForEveryone covers all deletes, those with an API key over REST included.
	UndoForEveryone UndoFor = "Everyone"
)

// UndoSpec selects the deletes that can be undone.
type UndoSpec struct {
	// Window is how long a deleted item can be restored, from 1h to 720h. A change applies to later
	// deletes. A deleted item counts against spec.storage.maxStorage; it ends before its time where an
	// upload needs its room, the oldest first.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(h|m|s|ms))+$') && duration(self) >= duration('1h') && duration(self) <= duration('720h')",message="must be a duration from 1h to 720h, such as 24h"
	Window metav1.Duration `json:"window"`

	// For says whose deletes can be undone. Agents: those of assistants and connected applications, which
	// are all deletes at the MCP endpoint, and those with a credential from a login. Everyone: those
	// with an API key over REST, too.
	//
	// +optional
	// +kubebuilder:default=Agents
	For UndoFor `json:"for,omitempty"`
}

// JournalSpec configures the journal of an account.
type JournalSpec struct {
	// Retention is how long an event can be read, from 24h to 9600h, in whole seconds.
	//
	// +optional
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}(h|m|s))+$') && duration(self) >= duration('24h') && duration(self) <= duration('9600h')",message="must be a duration of whole seconds from 24h to 9600h, such as 168h"
	Retention *metav1.Duration `json:"retention,omitempty"`

	// Addresses says what later events have of the e-mail address of a person: `Masked`, its first character and
	// the domain, or `Full`, all of it. Owners, and programs with a key of the Default App, read it.
	//
	// +optional
	// +kubebuilder:default=Masked
	Addresses AddressesOfEvents `json:"addresses,omitempty"`
}

// SearchSpec says what searches by words look in. A change applies at once, to the media of before, too.
type SearchSpec struct {
	// Metadata lists the keys of the metadata that is searched beside file names, captions and groups. An empty list searches no metadata; if it is
	// omitted, all metadata is searched.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=24
	Metadata []MetadataKey `json:"metadata,omitzero"`

	// Language is the language of the words that are searched: other forms of a word are found, too, such as `house` for `houses`. If it is omitted,
	// words are found that begin with those of the search.
	//
	// +optional
	Language SearchLanguage `json:"language,omitempty"`
}

// MetadataKey is a key of the metadata of media.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9._-]*$')",message="must be a key of metadata: a-z, 0-9, '.', '_' and '-', beginning with a letter"
type MetadataKey string

// SearchLanguage is a language of which PostgreSQL knows the forms of words.
//
// +kubebuilder:validation:Enum=Danish;Dutch;English;Finnish;French;German;Hungarian;Italian;Norwegian;Portuguese;Romanian;Russian;Spanish;Swedish;Turkish
type SearchLanguage string

// GateSpec has files checked before they are sealed.
type GateSpec struct {
	// Scanner is what checks the files, of those that the installation has: `clamd` (SERVICE_CLAMD_ADDRESS), or `http`, a service of its own
	// (SERVICE_GATE_URLS). The address is that of the installation.
	Scanner GateScanner `json:"scanner"`

	// OnUnscannable says what happens with a file that cannot be checked, because it is encrypted, damaged or too large. `Deny`: it is not
	// sealed. `Allow`: it is sealed.
	//
	// +optional
	// +kubebuilder:default=Deny
	OnUnscannable UnscannablePolicy `json:"onUnscannable,omitempty"`

	// OnUnavailable says what happens while the scanner does not answer. `Wait`: seals wait for it; a draft is purged after its time as always.
	// `Allow`: files are sealed unchecked.
	//
	// +optional
	// +kubebuilder:default=Wait
	OnUnavailable UnavailablePolicy `json:"onUnavailable,omitempty"`

	// MaxScanBytes is the largest file that is checked. A larger one cannot be checked. clamd has a limit of its own, StreamMaxLength.
	//
	// +optional
	// +kubebuilder:default="100Mi"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a quantity of bytes such as 100Mi"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[num]$')",message="must be a whole number of bytes",messageExpression="'must be a whole number of bytes: ' + string(self) + (string(self).endsWith('m') ? ' is in thousandths; did you mean ' + string(self).upperAscii() + '?' : ' is a fraction')"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || (quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('4Gi')) <= 0)",message="must be above 0 and at most 4Gi"
	MaxScanBytes *resource.Quantity `json:"maxScanBytes,omitempty"`
}

// MetadataSpec says what is kept of what files say of how they were made.
type MetadataSpec struct {
	// Location says what happens with the latitude and the longitude in photos and videos. `Drop`: they are stored nowhere but in the original
	// file. `Keep`: items have them, and can be found by them, of files that are uploaded from then on. A change to `Drop` removes those of all
	// items.
	//
	// +optional
	// +kubebuilder:default=Drop
	Location LocationPolicy `json:"location,omitempty"`
}

// LocationPolicy says what happens with the places in files.
//
// +kubebuilder:validation:Enum=Drop;Keep
type LocationPolicy string

// The values of LocationPolicy.
const (
	LocationDrop LocationPolicy = "Drop"
	LocationKeep LocationPolicy = "Keep"
)

// GateScanner is what checks files.
//
// +kubebuilder:validation:Enum=clamd;http
type GateScanner string

// The values of GateScanner.
const (
	GateScannerClamd GateScanner = "clamd"
	GateScannerHTTP  GateScanner = "http"
)

// UnscannablePolicy says what happens with a file that cannot be checked.
//
// +kubebuilder:validation:Enum=Deny;Allow
type UnscannablePolicy string

// The values of UnscannablePolicy.
const (
	UnscannableDeny  UnscannablePolicy = "Deny"
	UnscannableAllow UnscannablePolicy = "Allow"
)

// UnavailablePolicy says what happens while the scanner does not answer.
//
// +kubebuilder:validation:Enum=Wait;Allow
type UnavailablePolicy string

// The values of UnavailablePolicy.
const (
	UnavailableWait  UnavailablePolicy = "Wait"
	UnavailableAllow UnavailablePolicy = "Allow"
)

// AddressesOfEvents says what events have of the e-mail address of a person.
//
// +kubebuilder:validation:Enum=Masked;Full
type AddressesOfEvents string

// The values of AddressesOfEvents.
const (
	AddressesMasked AddressesOfEvents = "Masked"
	AddressesFull   AddressesOfEvents = "Full"
)

// MediaAccountSpec is the desired state of an account.
type MediaAccountSpec struct {
	// DisplayName is the account's name as shown to users.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="must not contain control characters"
	DisplayName string `json:"displayName,omitempty"`

	// Owners are the e-mail addresses of the users who may log in. Case is ignored: the list
	// must not contain two addresses that differ in case only.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.lowerAscii() == b.lowerAscii()))",message="must not contain two addresses that differ in case only; they are one owner"
	Owners []EmailAddress `json:"owners,omitempty"`

	// Storage configures the bucket and the storage limits.
	//
	// +optional
	// +kubebuilder:default={}
	Storage StorageSpec `json:"storage"`

	// DeletionPolicy determines what happens to the media when this object is deleted: Retain
	// keeps the bucket and the media, Delete deletes them.
	//
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// DeletionProtection rejects the deletion of this object. Where the admission policy is not
	// installed, the deletion retains the account, whatever the deletion policy is.
	//
	// +optional
	DeletionProtection bool `json:"deletionProtection,omitempty"`

	// DeleteAfter is how long the media is kept after this object was deleted with deletion
	// policy Delete, from 0s to 8784h. Until then a RetainedMediaAccount names the account, and
	// creating this object again restores it. The default is 24h for an account with items
	// that are sealed, or deleted and can be restored, and 0s for one without.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(h|m|s|ms))+$') && duration(self) <= duration('8784h')",message="must be a duration from 0s to 8784h, such as 24h"
	DeleteAfter *metav1.Duration `json:"deleteAfter,omitempty"`

	// RestoreFrom is the name of a RetainedMediaAccount whose account this object takes over:
	// its id, URLs, items and settings. An account of another namespace needs the permission of
	// a cluster admin: spec.claimRef of the RetainedMediaAccount must name this object. It has
	// an effect only while this object has no account.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?$')",message="must be the name of a RetainedMediaAccount, which is a UUID"
	RestoreFrom string `json:"restoreFrom,omitempty"`

	// Suspended denies all requests and keeps all data. Logins are revoked and are not restored
	// when the account is resumed.
	//
	// +optional
	Suspended bool `json:"suspended,omitempty"`

	// Apps are the apps in addition to the Default App. Each app is a separate namespace of
	// items with its own key and Secret. Removing an app from the list revokes its key and keeps
	// its items.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	Apps []AppSpec `json:"apps,omitempty"`

	// APIKeys controls the rotation of the API keys.
	//
	// +optional
	// +kubebuilder:default={}
	APIKeys APIKeysSpec `json:"apiKeys"`

	// MCP restricts the tools. It applies to all requests to the MCP endpoint, and to REST and
	// TUS requests with a credential from a login (an access token, or an upload signature
	// created with one). It does not apply to REST and TUS requests with an API key. If it is
	// omitted, the key or the scopes of the login alone decide.
	//
	// +optional
	MCP *MCPSpec `json:"mcp,omitempty"`

	// CORS selects the web pages that may call the service for this account. If it is omitted,
	// those of the installation may (SERVICE_CORS_ORIGINS of the runtime).
	//
	// +optional
	CORS *CORSSpec `json:"cors,omitempty"`

	// Undo lets deleted items be restored for a time. If it is omitted, a delete is permanent; items
	// that were deleted before keep the time that they were given.
	//
	// +optional
	Undo *UndoSpec `json:"undo,omitempty"`

	// Journal records the changes of the account as events: of items, settings and API keys, its use, logins and suspension. If
	// it is omitted, changes are not recorded, and events of before cannot be read.
	//
	// +optional
	Journal *JournalSpec `json:"journal,omitempty"`

	// Gate has files checked for malware before they are sealed. If it is omitted, nothing is checked.
	//
	// +optional
	Gate *GateSpec `json:"gate,omitempty"`

	// Metadata says what is kept of what files say of how they were made. If it is omitted, the place is not.
	//
	// +optional
	Metadata *MetadataSpec `json:"metadata,omitempty"`

	// Search says what searches by words look in. If it is omitted, they look in file names, captions, groups and all metadata, for words of no
	// language.
	//
	// +optional
	Search *SearchSpec `json:"search,omitempty"`
}

// EndpointsStatus contains the URLs of the media service.
type EndpointsStatus struct {
	// REST is the base URL of the REST endpoints.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	REST string `json:"rest,omitempty"`

	// Resumable is the URL at which TUS uploads are created.
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

// UsageStatus is the storage used by the account. It is refreshed periodically, by default
// every 5 minutes.
type UsageStatus struct {
	// Used is usedBytes, rounded, with a binary unit, such as 1.4Gi.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Used string `json:"used,omitempty"`

	// UsedBytes is what counts against spec.storage.maxStorage: sealed items, drafts, deleted
	// items that can be restored, and the reservations of uploads in progress.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	UsedBytes int64 `json:"usedBytes"`

	// SealedBytes is the size of all objects of sealed items.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	SealedBytes int64 `json:"sealedBytes"`

	// SealedItems is the number of sealed items.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	SealedItems int64 `json:"sealedItems"`

	// DraftBytes is the size of all objects of drafts.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	DraftBytes int64 `json:"draftBytes"`

	// DeletedBytes is the size of all objects of deleted items that can be restored.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeletedBytes int64 `json:"deletedBytes,omitempty"`

	// RenditionBytes is the size of all pictures that were made of presets and are kept. They end where an
	// upload needs their room, so that they never make the storage full.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	RenditionBytes int64 `json:"renditionBytes,omitempty"`

	// ReservedBytes is the quota reserved for uploads in progress.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	ReservedBytes int64 `json:"reservedBytes"`

	// MeasuredAt is when these figures were measured first; later measurements with the same
	// result do not change it.
	//
	// +required
	MeasuredAt metav1.Time `json:"measuredAt"`
}

// BindingStatus names the Secret of the Default App, as the Service Binding specification
// requires of a provisioned service.
type BindingStatus struct {
	// Name of the Secret, in this namespace.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RuntimeStatus describes the replicas of the runtime that serve the account. It is refreshed
// together with the usage.
type RuntimeStatus struct {
	// Replicas is the number of replicas that serve.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// Versions of the replicas, without duplicates, sorted. During an upgrade there are two.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Versions []string `json:"versions,omitempty"`
}

// MediaAccountStatus is the observed state of an account.
type MediaAccountStatus struct {
	// ObservedGeneration is the last generation of the spec that the operator handled, -1
	// before the first.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Reconciling, Stalled, BucketReady, AppsReady, KeysReady and
	// StorageAvailable.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// AccountID is the account's id. It never changes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=36
	AccountID string `json:"accountID,omitempty"`

	// Bucket is the name of the account's bucket.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`

	// Endpoints are the URLs of the media service.
	//
	// +optional
	Endpoints *EndpointsStatus `json:"endpoints,omitempty"`

	// Keys describes the API key of every app.
	//
	// +optional
	// +listType=map
	// +listMapKey=app
	// +kubebuilder:validation:MaxItems=51
	Keys []KeyStatus `json:"keys,omitempty"`

	// Usage is the storage used by the account.
	//
	// +optional
	Usage *UsageStatus `json:"usage,omitempty"`

	// Binding names the Secret of the Default App (servicebinding.io, provisioned service).
	//
	// +optional
	Binding *BindingStatus `json:"binding,omitempty"`

	// Runtime describes the replicas of the runtime.
	//
	// +optional
	Runtime *RuntimeStatus `json:"runtime,omitempty"`
}

// MediaAccount provisions a media service for a tenant: a bucket, a Default App, an API key in
// a Secret, and endpoints to upload, seal, list, serve and delete media.
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

	// Spec is the desired state.
	//
	// +optional
	// +kubebuilder:default={}
	Spec MediaAccountSpec `json:"spec"`

	// Status is the observed state.
	//
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MediaAccountStatus `json:"status,omitempty"`
}

// MediaAccountList is a list of MediaAccounts.
//
// +kubebuilder:object:root=true
type MediaAccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the MediaAccounts.
	Items []MediaAccount `json:"items"`
}
