//go:build cgo

package vips

import (
	"embed"
	"path"
)

// CheckAVIFEncoder reports whether an AVIF can be made of the PNG sample: libheif may lack the encoder, and the program starts all
// the same.
func CheckAVIFEncoder() bool {
	return check("png", Recipe{BoxWidth: 8, BoxHeight: 8, Encoding: EncodeAVIF, Quality: 50})
}

// samples has a small image of each format. libvips and libheif load decoders from modules, which
// an installation may lack although the program starts.
//
//go:embed samples
var samples embed.FS

// CheckFormat reports whether a thumbnail can be created of the sample with this file name extension.
func CheckFormat(extension string) bool {
	return check(extension, Recipe{BoxWidth: 8, BoxHeight: 8, Encoding: EncodeWebP, Quality: 80})
}

func check(extension string, recipe Recipe) bool {
	file, err := samples.ReadFile(path.Join("samples", "sample."+extension))
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
