package capturefile

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/bep/imagemeta"

	"mediastack.dev/runtime/capture"
)

// Bounds of what imagemeta reads. It reads no block of more than 10 MiB.
const (
	maxTags    = 2000
	maxTagSize = 4 << 10
)

// tags are the tags of an image that are of interest.
type tags struct {
	exif map[string]any
	xmp  map[string]string
}

// The tags that are read. All of EXIF are in its main directories: a thumbnail has others of the same names.
var (
	exifTags = map[string]bool{"DateTimeOriginal": true, "OffsetTimeOriginal": true, "CreateDate": true, "OffsetTimeDigitized": true, "Make": true, "Model": true,
		"LensModel": true, "LensMake": true, "Rating": true, "GPSLatitude": true, "GPSLatitudeRef": true, "GPSLongitude": true, "GPSLongitudeRef": true}
	exifFolders = map[string]bool{"IFD0": true, "IFD0/ExifIFDP": true, "IFD0/GPSInfoIFD": true}
	xmpTags     = map[string]bool{
		"http://ns.adobe.com/exif/1.0/ DateTimeOriginal": true, "http://ns.adobe.com/exif/1.0/ GPSLatitude": true, "http://ns.adobe.com/exif/1.0/ GPSLongitude": true,
		"http://ns.adobe.com/photoshop/1.0/ DateCreated": true, "http://ns.adobe.com/xap/1.0/ CreateDate": true, "http://ns.adobe.com/xap/1.0/ Rating": true,
		"http://ns.adobe.com/tiff/1.0/ Make": true, "http://ns.adobe.com/tiff/1.0/ Model": true, "http://ns.adobe.com/exif/1.0/aux/ Lens": true,
		"http://cipa.jp/exif/1.0/ LensModel": true, "http://purl.org/dc/elements/1.1/ Title": true,
	}
)

// readTags reads the tags of an image, as far as they can be read: a file that is broken in the middle says what it says before.
func readTags(file []byte, format imagemeta.ImageFormat) tags {
	found := tags{exif: map[string]any{}, xmp: map[string]string{}}
	for _, source := range []imagemeta.Source{imagemeta.EXIF, imagemeta.XMP} { // one that is broken keeps nobody from reading the other
		_, _ = imagemeta.Decode(imagemeta.Options{R: bytes.NewReader(file), ImageFormat: format, Sources: source, LimitNumTags: maxTags, LimitTagSize: maxTagSize,
			ShouldHandleTag: func(tag imagemeta.TagInfo) bool {
				if tag.Source == imagemeta.XMP {
					return xmpTags[tag.Namespace+" "+tag.Tag]
				}
				return exifFolders[tag.Namespace] && exifTags[tag.Tag]
			},
			HandleTag: func(tag imagemeta.TagInfo) error {
				found.add(tag)
				return nil
			}})
	}
	return found
}

// add adds a tag. Of several with one name the first counts.
func (t tags) add(tag imagemeta.TagInfo) {
	if tag.Source == imagemeta.EXIF {
		if _, there := t.exif[tag.Tag]; !there {
			t.exif[tag.Tag] = tag.Value
		}
		return
	}
	name := tag.Namespace + " " + tag.Tag
	if _, there := t.xmp[name]; there {
		return
	}
	switch value := tag.Value.(type) {
	case string:
		t.xmp[name] = value
	case []string: // of a title in several languages the first is the default
		t.xmp[name] = value[0]
	case float64:
		t.xmp[name] = strconv.FormatFloat(value, 'f', -1, 64)
	}
}

// text returns a text of EXIF. imagemeta leaves what follows a NUL.
func (t tags) text(name string) string {
	value, _ := t.exif[name].(string)
	before, _, _ := strings.Cut(value, "\x00")
	return strings.TrimSpace(before)
}

// capture returns what the tags say.
func (t tags) capture() capture.Capture {
	xmp := t.xmp
	c := capture.Capture{
		At: first(exifTime(t.text("DateTimeOriginal"), t.text("OffsetTimeOriginal")), exifTime(t.text("CreateDate"), t.text("OffsetTimeDigitized")),
			isoTime(xmp["http://ns.adobe.com/exif/1.0/ DateTimeOriginal"]), isoTime(xmp["http://ns.adobe.com/photoshop/1.0/ DateCreated"]),
			isoTime(xmp["http://ns.adobe.com/xap/1.0/ CreateDate"])),
		Camera:   first(camera(t.text("Make"), t.text("Model")), camera(xmp["http://ns.adobe.com/tiff/1.0/ Make"], xmp["http://ns.adobe.com/tiff/1.0/ Model"])),
		Lens:     first(t.text("LensModel"), xmp["http://cipa.jp/exif/1.0/ LensModel"], xmp["http://ns.adobe.com/exif/1.0/aux/ Lens"]),
		Title:    xmp["http://purl.org/dc/elements/1.1/ Title"],
		Location: t.location(),
	}
	if rating, err := strconv.ParseFloat(xmp["http://ns.adobe.com/xap/1.0/ Rating"], 64); err == nil && rating >= 1 && rating <= capture.MaxRating {
		c.Rating = int(rating)
	}
	if rating, ok := t.exif["Rating"].(uint16); ok && c.Rating == 0 && rating <= capture.MaxRating {
		c.Rating = int(rating)
	}
	return c
}

func (t tags) location() *capture.Location {
	latitude, ok := t.degrees("GPSLatitude", "N", "S")
	longitude, ok2 := t.degrees("GPSLongitude", "E", "W")
	if ok && ok2 {
		return &capture.Location{Latitude: latitude, Longitude: longitude}
	}
	latitude, err := strconv.ParseFloat(t.xmp["http://ns.adobe.com/exif/1.0/ GPSLatitude"], 64)
	longitude, err2 := strconv.ParseFloat(t.xmp["http://ns.adobe.com/exif/1.0/ GPSLongitude"], 64)
	if err != nil || err2 != nil || !isFinite(latitude) || !isFinite(longitude) {
		return nil
	}
	return &capture.Location{Latitude: latitude, Longitude: longitude}
}

// degrees returns a coordinate of EXIF, whose sign is a letter in a tag of its own. Without that tag nothing is known: half of the earth
// would be wrong.
func (t tags) degrees(name, positive, negative string) (float64, bool) {
	value, ok := t.exif[name].(float64)
	if !ok || !isFinite(value) {
		return 0, false
	}
	switch strings.ToUpper(t.text(name + "Ref")) {
	case positive:
		return value, true
	case negative:
		return -value, true
	}
	return 0, false
}

func isFinite(number float64) bool { return !math.IsNaN(number) && !math.IsInf(number, 0) }
