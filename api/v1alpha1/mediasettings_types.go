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

	// MaxSignatureSeconds is the longest lifetime of upload signatures that are created from now on,
	// from 60 to 86400 seconds. Without it, SERVICE_SIGNATURE_TTL and a request decide.
	//
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	MaxSignatureSeconds *int32 `json:"maxSignatureSeconds,omitempty"`

	// MaxSignatureBytes is the largest file, in bytes, that may be uploaded with an upload signature
	// that is created from now on. Without it, maxUploadSize and a request decide.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxSignatureBytes *int64 `json:"maxSignatureBytes,omitempty"`

	// Presets are the pictures that are made of images on demand. Each one is pinned by its name: the
	// tenant cannot have another preset of that name. Up to 32 are in effect for an account; the pinned ones come first.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Presets []Preset `json:"presets,omitempty"`

	// Originals says who may fetch the original of a public item: public is every client, signed is a client with a
	// signed URL. Thumbnails, conversions to WebP and presets of a public item stay public, and the original of a conversion
	// always needs a signed URL. The field is pinned if present; the default without a pin is public.
	//
	// +optional
	// +kubebuilder:validation:Enum=public;signed
	Originals string `json:"originals,omitempty"`

	// Derivatives says when the thumbnail of an image, and its conversion to WebP, are made: AtUpload is before the upload is
	// answered. Later is afterwards: the thumbnail has its address at once, and the file of an item is the original until the
	// conversion is there. The field is pinned if present; the default without a pin is AtUpload.
	//
	// +optional
	// +kubebuilder:validation:Enum=AtUpload;Later
	Derivatives string `json:"derivatives,omitempty"`
}

// Preset says how a picture is made of an image on demand. Its address is that of the item's file with the name of the
// preset as the variant.
//
// +kubebuilder:validation:XValidation:rule="has(self.width) || has(self.height)",message="width or height is required"
// +kubebuilder:validation:XValidation:rule="!has(self.fit) || self.fit == 'inside' || (has(self.width) && has(self.height))",message="fit cover and pad need width and height"
// +kubebuilder:validation:XValidation:rule="!has(self.focus) || (has(self.fit) && self.fit == 'cover')",message="focus needs fit cover"
// +kubebuilder:validation:XValidation:rule="!has(self.quality) || !has(self.format) || self.format != 'png'",message="format png has no quality"
// +kubebuilder:validation:XValidation:rule="!has(self.animated) || !self.animated || !has(self.format) || self.format in ['auto', 'webp']",message="animated needs format webp or auto"
// +kubebuilder:validation:XValidation:rule="!has(self.densities) || self.densities.all(d, (!has(self.width) || self.width * d <= 4096) && (!has(self.height) || self.height * d <= 4096))",message="a side may have up to 4096 pixels at the largest density"
type Preset struct {
	// Name of the preset, a DNS label. original, webp and thumbnail are reserved.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['original', 'webp', 'thumbnail'])",message="original, webp and thumbnail are reserved"
	Name string `json:"name"`

	// Width of the box in pixels, from 1 to 4096. Without it, it follows from the height and the image.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Width int32 `json:"width,omitempty"`

	// Height of the box in pixels, from 1 to 4096. Without it, it follows from the width and the image.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Height int32 `json:"height,omitempty"`

	// Fit says how the image gets the size of the box. inside, the default, is the whole image, as large as fits;
	// cover fills the box and cuts off what exceeds it; pad is inside, on a background of the size of the box. No
	// image is enlarged.
	//
	// +optional
	// +kubebuilder:validation:Enum=inside;cover;pad
	Fit string `json:"fit,omitempty"`

	// Focus is what cover keeps: the centre (the default), what a person would look at (attention), where most
	// details are (entropy), or the focus point of the item (point).
	//
	// +optional
	// +kubebuilder:validation:Enum=centre;attention;entropy;point
	Focus string `json:"focus,omitempty"`

	// Format of the picture. auto, the default, is the first of AVIF, WebP and JPEG (PNG of an image with
	// transparency) that the client accepts.
	//
	// +optional
	// +kubebuilder:validation:Enum=auto;webp;avif;jpeg;png
	Format string `json:"format,omitempty"`

	// Quality of the encoder, from 1 to 100; by default that of the format: 80 for WebP and JPEG, 55 for AVIF.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Quality int32 `json:"quality,omitempty"`

	// Densities are the pixel densities that an address can ask for, from 1 to 3. 1 is always among them.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=3
	Densities []int32 `json:"densities,omitempty"`

	// Background is the color of pad, and of what is transparent in JPEG, as #rrggbb; by default white.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^#[0-9a-fA-F]{6}$`
	// +kubebuilder:validation:MaxLength=7
	Background string `json:"background,omitempty"`

	// Sharpen sharpens what was made smaller.
	//
	// +optional
	Sharpen bool `json:"sharpen,omitempty"`

	// Animated keeps the animation of GIF and WebP files, in WebP. Otherwise the picture is the first frame.
	//
	// +optional
	Animated bool `json:"animated,omitempty"`

	// Eager makes the pictures in advance: after an item was sealed, and again, at a bounded pace, after the preset has
	// changed. These are the pictures of all densities in the format; of auto, in the one that current browsers get: AVIF,
	// WebP of what is too large for AVIF or stays animated. They are stored only while the account has room.
	//
	// +optional
	Eager bool `json:"eager,omitempty"`
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

	// Originals says who may fetch the originals of public items, if it is set.
	//
	// +optional
	// +kubebuilder:validation:Enum=public;signed
	Originals string `json:"originals,omitempty"`

	// Derivatives says when thumbnails and conversions are made, if it is set.
	//
	// +optional
	// +kubebuilder:validation:Enum=AtUpload;Later
	Derivatives string `json:"derivatives,omitempty"`
}

// PresetStatus is a preset that is in effect, and what is stored of it.
type PresetStatus struct {
	// Name of the preset.
	//
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Source is pinned for a preset of this object, and tenant for one that the tenant has set.
	//
	// +required
	// +kubebuilder:validation:Enum=pinned;tenant
	Source string `json:"source"`

	// Ready is the number of pictures that are stored and up to date.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	Ready int64 `json:"ready"`

	// Stale is the number of pictures that are stored as the preset was before. They are not served, and are removed.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	Stale int64 `json:"stale"`

	// Bytes of both. They count towards the cap of the account, and make room for uploads.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	Bytes int64 `json:"bytes"`

	// Pending is the number of items of which the pictures of eager presets may still have to be made, for all eager presets of the
	// account together; absent for a preset that is not eager. While a changed preset is applied, items that are no images
	// are among them. What the account has no room for stays pending.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending *int64 `json:"pending,omitempty"`
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
	// tenant show within seconds: PostgreSQL notifies the operator. If the notification is lost,
	// they show within SERVICE_RETAINED_INTERVAL of the operator, by default 30 s.
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

	// Presets lists the presets that are in effect, with what is stored of them. The numbers are refreshed when the settings
	// change, and at the pace of the usage of accounts.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Presets []PresetStatus `json:"presets,omitempty"`
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
