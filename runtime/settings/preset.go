package settings

import "mediastack.dev/runtime/imageformat"

// Preset says how pictures are made of an account's images on demand (docs/decisions/0031).
type Preset struct {
	// Name is a DNS label; original, webp and thumbnail are reserved.
	Name string `json:"name"`
	// Width and Height are the box in pixels at density 1, from 1 to 4096. One of them may be 0: it
	// follows from the other and the image.
	Width  int   `json:"width,omitempty"`
	Height int   `json:"height,omitempty"`
	Fit    Fit   `json:"fit,omitempty"`   // default Inside
	Focus  Focus `json:"focus,omitempty"` // of Cover; default Centre
	// Format is the format of the result; default FormatAuto.
	Format Format `json:"format,omitempty"`
	// Quality of the encoder, from 1 to 100; 0 = the default of the format.
	Quality int `json:"quality,omitempty"`
	// Densities are the pixel densities that an address may ask for; default 1 alone.
	Densities []int `json:"densities,omitempty"`
	// Background is the color of Pad, and of what is transparent where the format has no alpha: #rrggbb; default #ffffff.
	Background string `json:"background,omitempty"`
	// Sharpen sharpens what was made smaller.
	Sharpen bool `json:"sharpen,omitempty"`
	// Animated keeps animations of GIF and WebP files, in WebP; otherwise the first frame is used.
	Animated bool `json:"animated,omitempty"`
	// Eager makes the pictures in advance, after an item was sealed, and again after the preset has changed. It changes no
	// picture.
	Eager bool `json:"eager,omitempty"`
}

// Fit says how an image gets the size of a preset.
type Fit string

// The fits.
const (
	Inside Fit = "inside" // the whole image, as large as fits into the box; never enlarged
	Cover  Fit = "cover"  // the box is filled, what exceeds it is cut off; never enlarged: the box shrinks, with its aspect ratio
	Pad    Fit = "pad"    // Inside, on a background that has the size of the box
)

// Focus says which part of an image Cover keeps.
type Focus string

// The focuses.
const (
	Centre    Focus = "centre"
	Attention Focus = "attention" // where a person would look: libvips' strategy
	Entropy   Focus = "entropy"   // where most details are
	Point     Focus = "point"     // around the focus point of the item; without one, Centre
)

// Format is the name of the format of a result.
type Format string

// Spec returns the row of the table of formats, that of FormatAuto for a name that is none of Formats.
func (f Format) Spec() imageformat.Format {
	spec, _ := imageformat.ByName(string(f))
	return spec
}

// The formats.
const (
	FormatAuto Format = "auto" // AVIF, WebP, else JPEG, or PNG for what is transparent: the first that the client accepts
	FormatWebP Format = "webp"
	FormatAVIF Format = "avif"
	FormatJPEG Format = "jpeg"
	FormatPNG  Format = "png"
)
