package media

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"mediastack.dev/runtime/geometry"
	"mediastack.dev/runtime/settings"
)

// Recipe says how one picture is made of an original: what a preset asks for at one density and in one
// format. All fields are set as they take effect, so that equal recipes make equal pictures.
type Recipe struct {
	// Width and Height are the box in pixels; one of them may be 0.
	Width, Height int
	Fit           settings.Fit
	// Focus is Centre unless Fit is Cover. Point is a fraction of the width and of the height, in
	// thousandths; zero unless Focus is settings.Point.
	Focus          settings.Focus
	PointX, PointY int
	// Format is the format of the picture. FormatAuto means JPEG, or PNG of an image with transparency: what
	// every client accepts.
	Format     settings.Format
	Quality    int     // 1 to 100; 0 for PNG
	Background [3]byte // red, green, blue
	Sharpen    bool
	Animated   bool
	// MaxBytes bounds the file of a JPEG: it has less quality, and then fewer pixels, until it fits. 0 = no bound. No preset has one.
	MaxBytes int
}

// RecipeID identifies what a preset asks for at one density and in one format, made by one version of the
// encoder. All items have the same: it does not depend on the point of the focus, which is that of an item.
type RecipeID [16]byte

// String returns the lower-case hexadecimal form.
func (id RecipeID) String() string { return hex.EncodeToString(id[:]) }

// RenditionKey identifies a rendition: a picture made of one original by one recipe and one version of the
// encoder. Its hexadecimal form can be an ETag.
type RenditionKey [sha256.Size]byte

// String returns the lower-case hexadecimal form.
func (k RenditionKey) String() string { return hex.EncodeToString(k[:]) }

// ID returns the id of a recipe for a version of the encoder: EncoderVersion, except in tests.
func (r Recipe) ID(encoderVersion int) RecipeID {
	r.PointX, r.PointY = 0, 0
	sum := sha256.Sum256([]byte(r.canonical(encoderVersion)))
	return RecipeID(sum[:len(RecipeID{})])
}

// Key returns the key of the rendition that the recipe makes of an original, for a version of the encoder.
func (r Recipe) Key(original SHA256, encoderVersion int) RenditionKey {
	return sha256.Sum256([]byte(r.canonical(encoderVersion) + " original=" + original.String()))
}

// canonical returns the one text that stands for a recipe. It must never change for a recipe that exists: what
// is stored would be stale. A field that is added is left out of the text while it has its zero value.
func (r Recipe) canonical(encoderVersion int) string {
	text := fmt.Sprintf("rendition encoder=%d width=%d height=%d fit=%s focus=%s point=%d,%d format=%s quality=%d background=%x sharpen=%t animated=%t",
		encoderVersion, r.Width, r.Height, r.Fit, r.Focus, r.PointX, r.PointY, r.Format, r.Quality, r.Background, r.Sharpen, r.Animated)
	if r.MaxBytes != 0 {
		text += fmt.Sprintf(" maxbytes=%d", r.MaxBytes)
	}
	return text
}

// Picture is a picture that an image worker made of a recipe.
type Picture struct {
	MimeType      string
	Width, Height int
	Data          []byte
	// Err says why there is no picture of this recipe; the other fields are zero then.
	Err error
}

// FitOf returns a fit as package geometry has it; false if there is no such fit.
func FitOf(fit settings.Fit) (geometry.Fit, bool) {
	switch fit {
	case settings.Inside:
		return geometry.Inside, true
	case settings.Cover:
		return geometry.Cover, true
	case settings.Pad:
		return geometry.Pad, true
	}
	return 0, false
}

// Size returns the size in pixels of the picture that the recipe makes of an image of this size, as it is displayed. It
// is exact, and at least 1 x 1.
func (r Recipe) Size(width, height int) (pictureWidth, pictureHeight int) {
	fit, _ := FitOf(r.Fit)
	_, picture := geometry.Layout(fit, geometry.Size{Width: r.Width, Height: r.Height}, geometry.Size{Width: width, Height: height})
	return picture.Width, picture.Height
}

// Offered reports whether the picture of an image of this size is not too large for its format.
func (r Recipe) Offered(width, height int) bool { return r.Format.Spec().Holds(r.Size(width, height)) }
