// Package imageformat is the table of image formats: what files of a format are called, and what pictures can be made in
// it. The runtime, its image worker and the protocol between them use it. To add a format: a row here, its loader and its
// encoder in vips.c and vips.go, a sample in vips/samples, and, if pictures are made in it, the values of MediaSettings, the
// names in openapi.yaml, a validator in package bare, which job.go of package imaging calls, and its pictures in
// hack/presetpictures.
package imageformat

// Format is a format of image files. Its values are those of the protocol of image workers.
type Format uint8

// The formats. Pictures are made in those before GIF, and of files in all but Auto.
const (
	Auto Format = iota // JPEG, or PNG of a picture that is not opaque: what every client accepts
	WebP
	AVIF
	JPEG
	PNG
	GIF
	HEIC
)

// row describes one format.
type row struct {
	name  string // of presets and addresses
	title string // for people
	// extension and types are those of files. The first type is that of pictures; the others are what a look at the
	// content of a file may find.
	extension string
	types     []string
	inline    bool // browsers display it

	// What follows is about pictures. Without encoded none are made in the format.
	encoded    bool
	preference int // the order in which a client that accepts several formats gets one of them; 0 = it must ask by a suffix
	quality    int // the default, from 1 to 100; 0 = the format is lossless
	animated   bool
	opaque     bool   // it has no transparency
	encoder    string // what libvips may lack; empty if it always has the encoder
	// maxSide bounds width and height, and maxPixels their product; 0 = no bound.
	maxSide   int
	maxPixels int64
}

var rows = [...]row{
	Auto: {name: "auto", quality: 80, encoded: true, maxSide: maxJPEGSide},
	WebP: {name: "webp", title: "WebP", extension: ".webp", types: []string{"image/webp"}, inline: true,
		encoded: true, preference: 2, quality: 80, animated: true, maxSide: 1<<14 - 1},
	// libheif decodes sides of up to 16384. Beyond 65536 its encoder makes a file without an image, and reports no error. It
	// needs seconds and hundreds of megabytes for more pixels than these.
	AVIF: {name: "avif", title: "AVIF", extension: ".avif", types: []string{"image/avif"}, inline: true,
		encoded: true, preference: 1, quality: 55, encoder: "the AV1 encoder of libheif", maxSide: 1 << 14, maxPixels: 4 << 20},
	JPEG: {name: "jpeg", title: "JPEG", extension: ".jpg", types: []string{"image/jpeg"}, inline: true,
		encoded: true, quality: 80, opaque: true, maxSide: maxJPEGSide},
	PNG: {name: "png", title: "PNG", extension: ".png", types: []string{"image/png", "image/vnd.mozilla.apng", "image/apng"}, inline: true,
		encoded: true},
	GIF: {name: "gif", title: "GIF", extension: ".gif", types: []string{"image/gif"}, inline: true},
	HEIC: {name: "heic", title: "HEIC", extension: ".heic",
		types: []string{"image/heic", "image/heic-sequence", "image/heif", "image/heif-sequence"}},
}

// maxJPEGSide is the largest width and height that libjpeg encodes and decodes; the format has 65535.
const maxJPEGSide = 65500

// Files returns the formats of files that pictures are made of.
func Files() []Format { return all(func(f Format) bool { return f != Auto }) }

// Encoded returns the formats of pictures, Auto first.
func Encoded() []Format { return all(func(f Format) bool { return rows[f].encoded }) }

func all(has func(Format) bool) []Format {
	var found []Format
	for i := range rows {
		if f := Format(i); has(f) {
			found = append(found, f)
		}
	}
	return found
}

// ByName returns the format of pictures that presets and addresses call by a name; false if there is none.
func ByName(name string) (Format, bool) {
	f, ok := byName[name]
	return f, ok
}

var byName = func() map[string]Format {
	found := map[string]Format{}
	for _, f := range Encoded() {
		found[rows[f].name] = f
	}
	return found
}()

// ByType returns the format of files of a MIME type; false if no pictures are made of such files.
func ByType(mimeType string) (Format, bool) {
	f, ok := byType[mimeType]
	return f, ok
}

var byType = func() map[string]Format {
	found := map[string]Format{}
	for _, f := range Files() {
		for _, t := range rows[f].types {
			found[t] = f
		}
	}
	return found
}()

// Valid reports whether pictures can be made in the format. The protocol's readers check it.
func (f Format) Valid() bool { return int(f) < len(rows) && rows[f].encoded }

// Name returns what presets and addresses call the format, such as avif.
func (f Format) Name() string { return rows[f].name }

// String returns the name for people, such as AVIF.
func (f Format) String() string { return rows[f].title }

// MIMEType returns the type of pictures in the format; empty for Auto.
func (f Format) MIMEType() string {
	if len(rows[f].types) == 0 {
		return ""
	}
	return rows[f].types[0]
}

// Extension returns the extension of file names, with its dot.
func (f Format) Extension() string { return rows[f].extension }

// Inline reports whether browsers display the format.
func (f Format) Inline() bool { return rows[f].inline }

// Preference returns the rank of the format among those that an address without a suffix offers, the first one 1; 0 if
// it does not offer it.
func (f Format) Preference() int { return rows[f].preference }

// DefaultQuality returns the quality that pictures have where a preset sets none; 0 if the format has no quality.
func (f Format) DefaultQuality() int { return rows[f].quality }

// Animated reports whether pictures in the format can be animated.
func (f Format) Animated() bool { return rows[f].animated }

// Opaque reports whether pictures in the format have no transparency.
func (f Format) Opaque() bool { return rows[f].opaque }

// Optional reports whether an installation of libvips may lack the encoder.
func (f Format) Optional() bool { return rows[f].encoder != "" }

// Encoder returns what to install for the encoder of an optional format.
func (f Format) Encoder() string { return rows[f].encoder }

// MaxSide returns the largest width and height of a picture; 0 if the format has no bound.
func (f Format) MaxSide() int { return rows[f].maxSide }

// Holds reports whether a picture of this size is not too large for the format.
func (f Format) Holds(width, height int) bool {
	r := rows[f]
	return (r.maxSide == 0 || max(width, height) <= r.maxSide) && (r.maxPixels == 0 || int64(width)*int64(height) <= r.maxPixels)
}
