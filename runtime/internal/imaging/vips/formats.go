//go:build cgo

package vips

import (
	"embed"
	"path"

	"mediastack.dev/runtime/imageformat"
)

// CheckEncoder reports whether a picture can be made of the PNG sample in a format: libvips may lack the encoder, and the
// program starts all the same.
func CheckEncoder(format imageformat.Format) bool {
	return check(imageformat.PNG, Recipe{BoxWidth: 8, BoxHeight: 8, Encoding: format, Quality: 50})
}

// samples has a small image of each format. libvips and libheif load decoders from modules, which
// an installation may lack although the program starts.
//
//go:embed samples
var samples embed.FS

// CheckFormat reports whether a thumbnail can be created of the sample of a format.
func CheckFormat(format imageformat.Format) bool {
	return check(format, Recipe{BoxWidth: 8, BoxHeight: 8, Encoding: imageformat.WebP, Quality: 80})
}

func check(format imageformat.Format, recipe Recipe) bool {
	file, err := samples.ReadFile(path.Join("samples", "sample"+format.Extension()))
	if err != nil {
		return false
	}
	picture, err := Render(file, nil, recipe)
	if err != nil {
		return false
	}
	picture.Free()
	return true
}
