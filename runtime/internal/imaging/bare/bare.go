// Package bare proves that JPEG, PNG and AVIF files have pixels only. JPEG and PNG strip metadata; AVIF rejects a file
// that has any. Package imaging passes every picture through it, or through package webp, so that none has
// metadata, whatever libvips or a compromised worker wrote.
package bare

import (
	"errors"
	"fmt"
)

// ErrInvalid is in the chain of every error: the file is not a valid still image of the format, as the image worker
// writes it.
var ErrInvalid = errors.New("not a valid picture")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Image is a still image without metadata.
type Image struct {
	File          []byte
	Width, Height int
}
