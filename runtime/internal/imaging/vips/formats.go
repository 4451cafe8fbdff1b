//go:build cgo

package vips

import (
	"embed"
	"path"
)

// samples has a small image of each format. libvips and libheif load decoders from modules, which
// an installation may lack although the program starts.
//
//go:embed samples
var samples embed.FS

// CheckFormat reports whether a thumbnail can be created of the sample with this file name extension.
func CheckFormat(extension string) bool {
	file, err := samples.ReadFile(path.Join("samples", "sample."+extension))
	if err != nil {
		return false
	}
	thumbnail, err := Thumbnail(file, nil, 8, 8)
	if err != nil {
		return false
	}
	thumbnail.Free()
	return true
}
