package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeleteApproval says which deletes wait for an owner.
//
// +kubebuilder:validation:Enum=Never;Bulk;Always
type DeleteApproval string

// ChangeApproval is whether a kind of changes waits for an owner.
//
// +kubebuilder:validation:Enum=Never;Always
type ChangeApproval string

// The values of DeleteApproval and ChangeApproval.
const (
	DeleteApprovalNever  DeleteApproval = "Never"
	DeleteApprovalBulk   DeleteApproval = "Bulk"
	DeleteApprovalAlways DeleteApproval = "Always"

	ChangeApprovalNever  ChangeApproval = "Never"
	ChangeApprovalAlways ChangeApproval = "Always"
)

// MCPApprovalSpec says which changes wait for an owner.
//
// +kubebuilder:validation:XValidation:rule="!has(self.bulk) || self.delete == 'Bulk'",message="bulk needs delete: Bulk"
type MCPApprovalSpec struct {
	// Delete says which deletes wait. `Never`: none. `Bulk`: those of a connection beyond bulk.items in bulk.per. `Always`: all.
	//
	// +optional
	// +kubebuilder:default=Never
	Delete DeleteApproval `json:"delete,omitempty"`

	// Publish reports whether changes wait that make a file public: access public, the seal of a public draft, and the restore of a public item.
	//
	// +optional
	// +kubebuilder:default=Never
	Publish ChangeApproval `json:"publish,omitempty"`

	// Settings reports whether changes of the media settings wait.
	//
	// +optional
	// +kubebuilder:default=Never
	Settings ChangeApproval `json:"settings,omitempty"`

	// Bulk says how many deletes pass with delete: Bulk. If it is omitted, they are 20 in 1h.
	//
	// +optional
	Bulk *MCPBulkSpec `json:"bulk,omitempty"`
}

// MCPBulkSpec is how many deletes of one connection pass without an owner.
type MCPBulkSpec struct {
	// Items is how many deletes pass.
	//
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Items int64 `json:"items,omitempty"`

	// Per is the time in which they pass, from 1m to 24h. It begins with the first delete after the time before.
	//
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}(h|m|s))+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be a duration of whole seconds from 1m to 24h, such as 1h"
	Per *metav1.Duration `json:"per,omitempty"`
}

// MCPCeiling bounds what is done in a time. Each time begins with the first use after the one before.
type MCPCeiling struct {
	// UploadBytesPerDay is how many bytes may be uploaded in a day.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a quantity of bytes such as 10Gi"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[num]$')",message="must be a whole number of bytes"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || (quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('1Pi')) <= 0)",message="must be above 0 and at most 1Pi"
	UploadBytesPerDay *resource.Quantity `json:"uploadBytesPerDay,omitempty"`

	// DeletesPerHour is how many items may be deleted in an hour. A delete that an owner has allowed counts, too.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	DeletesPerHour *int64 `json:"deletesPerHour,omitempty"`

	// FetchesPerDay is how many uploads from a URL may be requested in a day.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	FetchesPerDay *int64 `json:"fetchesPerDay,omitempty"`
}

// MCPCeilingsSpec bounds what one connection does, and all of them together.
type MCPCeilingsSpec struct {
	// The ceiling of each connection: an authorized application, or an assistant with an API key.
	MCPCeiling `json:",inline"`

	// Total is the ceiling of all connections of the account together.
	//
	// +optional
	Total *MCPCeiling `json:"total,omitempty"`
}
