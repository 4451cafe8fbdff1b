package api

import "time"

// NewSignature returns the document of an upload signature. base is the URL of the service.
func NewSignature(base, signature string, expires time.Time) Signature {
	return Signature{Signature: signature, ExpiresAt: timestamp(expires), UploadUrl: base + UploadRoute, ResumableUrl: base + ResumableRoute}
}
