package objectstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/minio/minio-go/v7"
)

// existingFolder is the error code of a gateway on a file system (versitygw) whose key is a folder. No
// key of the service is one, but the gateway has the same code for a folder that it could not make:
// it makes those of a key before it stores the object, and removes those that the removal of
// another object empties. A put between the two, such as the first upload while the last item of an
// account is removed, is rejected and stores nothing. It succeeds as soon as it is repeated.
// CompleteMultipartUpload meets the same as an InternalError, which the client repeats anyway.
const existingFolder = "ExistingObjectIsDirectory"

// Bounds of the pause before a put is repeated. The folder is missing for less than a millisecond; the
// pause is for a machine that does not get to make it.
const (
	minFolderPause = 2 * time.Millisecond
	maxFolderPause = 50 * time.Millisecond
)

// repeatPut calls put until its error is another one than existingFolder, at most maxAttempts times.
// The response says that nothing was stored, so that a put with a condition can be repeated, too.
func repeatPut(ctx context.Context, put func() error) error {
	for attempt := 1; ; attempt++ {
		err := put()
		if attempt == maxAttempts || minio.ToErrorResponse(err).Code != existingFolder {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(minFolderPause + rand.N(maxFolderPause-minFolderPause)):
		}
	}
}
