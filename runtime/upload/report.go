package upload

import (
	"errors"
	"mime"
	"path"
	"strings"

	"mediastack.dev/runtime/media"
)

// Report is what the bytes of an upload show, for a client that may have sent other bytes than it meant to.
type Report struct {
	Size int64 // of the file as it arrived
	// DetectedType is what the bytes alone show, whatever the client declared.
	DetectedType string
	// Unreadable is set for a file that is an image by its bytes, its declared type or its name, and of which no whole image can be read.
	// Images of types that this service does not read are not judged.
	Unreadable bool
}

// Report returns what the bytes of the file show, once Commit has succeeded. fields are those of Commit.
func (u *Single) Report(fields media.Fields) Report {
	report := Report{Size: u.size, DetectedType: u.detected}
	switch {
	case errors.Is(u.underivable, media.ErrUnreadable):
		report.Unreadable = true
	case !isImageType(u.detected):
		report.Unreadable = isImageType(fields.MimeType) || imageExtensions[strings.ToLower(path.Ext(media.CleanFileName(fields.FileName)))]
	}
	return report
}

// Received returns the size and the hash of the file, once Receive has succeeded. A caller that expected another file does not commit it.
func (u *Single) Received() (size int64, sum media.SHA256) { return u.size, u.digest.sum() }

// isImageType reports whether a type, with or without parameters, is that of images.
func isImageType(mimeType string) bool {
	kind, _, err := mime.ParseMediaType(mimeType)
	return err == nil && strings.HasPrefix(kind, "image/")
}

// imageExtensions are the extensions by which people and programs name images. The table of package mime depends on the machine.
var imageExtensions = map[string]bool{
	".jpg": true, ".jpeg": true, ".jpe": true, ".jfif": true, ".png": true, ".apng": true, ".gif": true, ".webp": true, ".avif": true,
	".heic": true, ".heif": true, ".bmp": true, ".tif": true, ".tiff": true, ".ico": true, ".svg": true, ".jxl": true, ".jp2": true,
}
