package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReclaimPolicy determines what happens to the media of a retained account.
//
// +kubebuilder:validation:Enum=Retain;Purge
type ReclaimPolicy string

const (
	// ReclaimRetain keeps the bucket and the media.
	ReclaimRetain ReclaimPolicy = "Retain"
	// ReclaimPurge permanently deletes every item, every object and the bucket. It cannot be
	// undone once the deletion has begun.
	ReclaimPurge ReclaimPolicy = "Purge"
)

// ClaimReference names the MediaAccount that may take over a retained account.
type ClaimReference struct {
	// Namespace of the MediaAccount.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Name of the MediaAccount. The default is spec.accountName.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
}

// RetainedMediaAccountSpec identifies a retained account, and says what happens to it.
type RetainedMediaAccountSpec struct {
	// AccountID is the account's id.
	//
	// +required
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	AccountID string `json:"accountID"`

	// InstallationID is the id of the installation that stores the account.
	//
	// +required
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	InstallationID string `json:"installationID"`

	// AccountNamespace is the namespace of the MediaAccount that was deleted.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	AccountNamespace string `json:"accountNamespace"`

	// NamespaceUID is the UID of that namespace. A namespace that is created again under the
	// same name has another UID.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	NamespaceUID string `json:"namespaceUID,omitempty"`

	// AccountName is the name of the MediaAccount that was deleted.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	AccountName string `json:"accountName"`

	// Bucket with the media.
	//
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	Bucket string `json:"bucket"`

	// ClosedAt is when the account was closed. An object of an earlier closing has no effect, and
	// is replaced.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	ClosedAt metav1.MicroTime `json:"closedAt"`

	// ClaimRef permits a MediaAccount to take over the account. The account is bound when that
	// MediaAccount exists and has no account. Without it, only a MediaAccount of the same
	// namespace (the same UID) may, and one of the same name is bound by itself.
	//
	// +optional
	ClaimRef *ClaimReference `json:"claimRef,omitempty"`

	// Reclaim determines what happens to the media: Retain keeps it, Purge deletes it. The
	// operator sets Purge for an account that was deleted with deletion policy Delete; then
	// status.purgeAt is the time of the deletion, and setting Retain before it keeps the media.
	// Setting Purge on a retained account deletes the media at once.
	//
	// +optional
	// +kubebuilder:default=Retain
	Reclaim ReclaimPolicy `json:"reclaim,omitempty"`

	// ReserveName keeps the namespace and the name for the account: a new MediaAccount of the
	// same namespace is bound to the account, and one of a namespace that was created again
	// waits for a decision. If it is false, a new MediaAccount starts with an empty account.
	//
	// +optional
	// +kubebuilder:default=true
	ReserveName *bool `json:"reserveName,omitempty"`
}

// RetainedMediaAccountStatus is the observed state of a retained account.
type RetainedMediaAccountStatus struct {
	// ObservedGeneration is the last generation of the spec that the operator handled.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Reconciling and Stalled.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Items is the number of sealed items.
	//
	// +optional
	Items int64 `json:"items"`

	// Bytes is the size of all items, drafts included.
	//
	// +optional
	Bytes int64 `json:"bytes"`

	// PurgeAt is when the media is deleted; absent if it is kept.
	//
	// +optional
	PurgeAt *metav1.Time `json:"purgeAt,omitempty"`
}

// RetainedMediaAccount is an account without a MediaAccount: its media was retained when the
// MediaAccount was deleted, or the MediaAccount vanished. The operator creates it, and creates it
// again if it is deleted: only spec.reclaim deletes media. Its name is the account's id.
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.accountID",message="metadata.name must be spec.accountID"
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=rma,categories=mediastack
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.accountNamespace`
// +kubebuilder:selectablefield:JSONPath=`.spec.accountName`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.accountNamespace`
// +kubebuilder:printcolumn:name="Account",type=string,JSONPath=`.spec.accountName`
// +kubebuilder:printcolumn:name="Reclaim",type=string,JSONPath=`.spec.reclaim`
// +kubebuilder:printcolumn:name="Items",type=integer,JSONPath=`.status.items`
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.bytes`
// +kubebuilder:printcolumn:name="Closed",type=date,JSONPath=`.spec.closedAt`
// +kubebuilder:printcolumn:name="Purge At",type=string,JSONPath=`.status.purgeAt`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type RetainedMediaAccount struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec identifies the account, and says what happens to it.
	//
	// +required
	Spec RetainedMediaAccountSpec `json:"spec"`

	// Status is the observed state.
	//
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status RetainedMediaAccountStatus `json:"status,omitempty"`
}

// RetainedMediaAccountList is a list of RetainedMediaAccount objects.
//
// +kubebuilder:object:root=true
type RetainedMediaAccountList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RetainedMediaAccount `json:"items"`
}
