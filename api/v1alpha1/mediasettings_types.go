package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AccountReference names a MediaAccount of the same namespace.
type AccountReference struct {
	// Name of the MediaAccount. It cannot be changed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; create another MediaSettings for the other account"
	Name string `json:"name"`
}

// MediaSettingsSpec pins settings of an account. A field that is present is pinned: the tenant
// cannot change its value. A field that is absent can be set by the tenant, and has its default
// until then.
type MediaSettingsSpec struct {
	// AccountRef names the MediaAccount, in the same namespace, whose settings are pinned.
	//
	// +required
	AccountRef AccountReference `json:"accountRef"`

	// UseWebP converts JPEG and PNG uploads to WebP. The field is pinned if present; the
	// default without a pin is false.
	//
	// +optional
	UseWebP *bool `json:"useWebP,omitempty"`

	// WebPOutputQuality is the quality of WebP conversions, from 0 to 100. The field is pinned
	// if present; the default without a pin is 80.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	WebPOutputQuality *int32 `json:"webpOutputQuality,omitempty"`

	// ThumbnailWidth is the maximum width of thumbnails in pixels, from 1 to 4096. The field is
	// pinned if present; the default without a pin is 320.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	ThumbnailWidth *int32 `json:"thumbnailWidth,omitempty"`

	// ThumbnailHeight is the maximum height of thumbnails in pixels, from 1 to 4096. The field
	// is pinned if present; the default without a pin is 320.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	ThumbnailHeight *int32 `json:"thumbnailHeight,omitempty"`
}

// EffectiveSettings are the settings that uploads are processed with. The value of each field
// is the pin, else the tenant's value, else the default.
type EffectiveSettings struct {
	// UseWebP is true if JPEG and PNG uploads are converted to WebP.
	//
	// +required
	UseWebP bool `json:"useWebP"`

	// WebPOutputQuality is the quality of WebP conversions.
	//
	// +required
	WebPOutputQuality int32 `json:"webpOutputQuality"`

	// ThumbnailWidth is the maximum width of thumbnails in pixels.
	//
	// +required
	ThumbnailWidth int32 `json:"thumbnailWidth"`

	// ThumbnailHeight is the maximum height of thumbnails in pixels.
	//
	// +required
	ThumbnailHeight int32 `json:"thumbnailHeight"`
}

// MediaSettingsStatus is the observed state. An object that is not the active MediaSettings of
// its account (reason Conflict) has no effective, pinned and tenant.
type MediaSettingsStatus struct {
	// ObservedGeneration is the last generation of the spec that the operator handled, -1
	// before the first.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Reconciling and Stalled.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Effective are the settings that the account's uploads are processed with. Changes by the
	// tenant show at the next refresh, by default within 5 minutes.
	//
	// +optional
	Effective *EffectiveSettings `json:"effective,omitempty"`

	// Pinned lists the fields that this object pins.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Pinned []string `json:"pinned,omitempty"`

	// Tenant lists the fields whose value was set by the tenant.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Tenant []string `json:"tenant,omitempty"`
}

// MediaSettings pins image settings of a MediaAccount in its namespace. The oldest MediaSettings
// of an account is active; all others are Stalled with reason Conflict.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mediasettings,singular=mediasettings,shortName=ms,categories=mediastack
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.accountRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Account",type=string,JSONPath=`.spec.accountRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type MediaSettings struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the object.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	//
	// +required
	Spec MediaSettingsSpec `json:"spec"`

	// Status is the observed state.
	//
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MediaSettingsStatus `json:"status,omitempty"`
}

// MediaSettingsList is a list of MediaSettings.
//
// +kubebuilder:object:root=true
type MediaSettingsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the MediaSettings.
	Items []MediaSettings `json:"items"`
}
