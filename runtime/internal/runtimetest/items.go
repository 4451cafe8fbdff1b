package runtimetest

import (
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// Upload runs a whole upload by the use cases.
func Upload(ctx context.Context, uploads *upload.Service, p account.Principal, data io.Reader, fields media.Fields) (media.Item, error) {
	u, err := uploads.Begin(ctx, p, 0)
	if err != nil {
		return media.Item{}, err
	}
	defer u.Close(ctx)
	if err := u.Receive(ctx, data, fields.MimeType); err != nil {
		return media.Item{}, err
	}
	return u.Commit(ctx, fields)
}

// DeleteItem deletes an item with an API key.
func DeleteItem(ctx context.Context, service *media.Service, p account.Principal, id uuid.UUID) error {
	_, err := service.Delete(ctx, p, id, media.DeleteOptions{})
	return err
}

// Noise returns n bytes that do not compress. They depend on n alone.
func Noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(strconv.Itoa(n)))).Read(data)
	return data
}
