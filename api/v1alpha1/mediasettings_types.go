package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AccountReference names a MediaAccount of the same namespace.
type AccountReference struct {
	// Name of the MediaAccount. It can't be changed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="can't be changed: make another MediaSettings for the other account"
	Name string `json:"name"`
}

// MediaSettingsSpec pins settings of an account. A field that is present is pinned:
// it has this value and the tenant can't change it. A field that is absent is the
// tenant's to choose, and has its default until then.
type MediaSettingsSpec struct {
	// AccountRef names the MediaAccount of this namespace that the settings are for.
	//
	// +required
	AccountRef AccountReference `json:"accountRef"`

	// UseWebP gives JPEG and PNG uploads a WebP conversion. Present = pinned; the
	// default of an unpinned account is false.
	//
	// +optional
	UseWebP *bool `json:"useWebP,omitempty"`

	// WebPOutputQuality is the quality of WebP conversions, 0 to 100. Present =
	// pinned; the default of an unpinned account is 80.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	WebPOutputQuality *int32 `json:"webpOutputQuality,omitempty"`

	// ThumbnailWidth is the width in pixels that thumbnails fit inside, 1 to 4096.
	// Present = pinned; the default of an unpinned account is 320.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	ThumbnailWidth *int32 `json:"thumbnailWidth,omitempty"`

	// ThumbnailHeight is the height in pixels that thumbnails fit inside, 1 to 4096.
	// Present = pinned; the default of an unpinned account is 320.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	ThumbnailHeight *int32 `json:"thumbnailHeight,omitempty"`
}

// EffectiveSettings are the settings that uploads are processed with: the pin, else
// the tenant's choice, else the default, field by field.
type EffectiveSettings struct {
	// UseWebP says whether JPEG and PNG uploads get a WebP conversion.
	//
	// +required
	UseWebP bool `json:"useWebP"`

	// WebPOutputQuality is the quality of WebP conversions.
	//
	// +required
	WebPOutputQuality int32 `json:"webpOutputQuality"`

	// ThumbnailWidth is the width in pixels that thumbnails fit inside.
	//
	// +required
	ThumbnailWidth int32 `json:"thumbnailWidth"`

	// ThumbnailHeight is the height in pixels that thumbnails fit inside.
	//
	// +required
	ThumbnailHeight int32 `json:"thumbnailHeight"`
}

// MediaSettingsStatus is what the operator found. An object that does not rule its
// account (reason Conflict) has no effective, pinned and tenant.
type MediaSettingsStatus struct {
	// ObservedGeneration is the last generation of the spec that was handled; -1
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

	// Effective are the settings that the account's uploads are processed with,
	// refreshed at a slow pace where a tenant changes them.
	//
	// +optional
	Effective *EffectiveSettings `json:"effective,omitempty"`

	// Pinned names the fields that this object fixes.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Pinned []string `json:"pinned,omitempty"`

	// Tenant names the fields whose value is the tenant's choice.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Tenant []string `json:"tenant,omitempty"`
}

// MediaSettings fixes image settings of a MediaAccount in its namespace. One rules an
// account, the oldest; any other is Stalled with reason Conflict until it is the oldest.
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

	// Spec is what is pinned.
	//
	// +required
	Spec MediaSettingsSpec `json:"spec"`

	// Status is what the operator found.
	//
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MediaSettingsStatus `json:"status,omitempty"`
}

// MediaSettingsList is a list of settings.
//
// +kubebuilder:object:root=true
type MediaSettingsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the settings.
	Items []MediaSettings `json:"items"`
}
