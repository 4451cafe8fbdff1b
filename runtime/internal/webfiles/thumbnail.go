package webfiles

import (
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// maxThumbnail bounds the thumbnail of a deleted file, in bytes.
const maxThumbnail = 1 << 20

// errNoThumbnail is the error of every thumbnail that is not shown.
var errNoThumbnail = fault.New(fault.NotFound, "there is no such thumbnail")

// deletedThumbnailURL returns the URL of the thumbnail of a deleted file, which has no public address; empty = there is no thumbnail.
func (a *API) deletedThumbnailURL(o fileOwner, item media.Item) string {
	if _, ok := thumbnailOf(item); !ok {
		return ""
	}
	return o.url(thumbnailPath, url.Values{"item": {item.ID.String()}})
}

func thumbnailOf(item media.Item) (media.Object, bool) {
	thumbnail, ok := item.Objects.Find(media.Thumbnail)
	return thumbnail, ok && thumbnail.MimeType == imageformat.WebP.MIMEType()
}

// showDeletedThumbnail sends the thumbnail of a deleted file to its owner. It starts no login: it is a picture.
func (a *API) showDeletedThumbnail(w http.ResponseWriter, r *http.Request) {
	if err := a.sendDeletedThumbnail(w, r); err != nil {
		httpapi.WriteError(w, r, err)
	}
}

func (a *API) sendDeletedThumbnail(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	session, ok := a.Login.User(r)
	accountID, accountErr := uuid.Parse(query.Get("account"))
	id, itemErr := uuid.Parse(query.Get("item"))
	if !ok || accountErr != nil || itemErr != nil {
		return errNoThumbnail
	}
	p, err := a.OAuth.Principal(r.Context(), session, accountID, query.Get("app"))
	if fault.Is(err, fault.Forbidden) {
		return errNoThumbnail
	}
	if err != nil {
		return err
	}
	if err := a.checkOperation(p, account.ListDeletedMedia); err != nil {
		return err
	}
	item, err := a.Media.Deleted(r.Context(), p, id)
	if err != nil {
		return err
	}
	thumbnail, ok := thumbnailOf(item.Item)
	if !ok {
		return errNoThumbnail
	}
	content, err := a.Objects.Open(r.Context(), p.Account.Bucket, thumbnail.Key, 0, thumbnail.Bytes)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	picture, err := io.ReadAll(io.LimitReader(content, maxThumbnail))
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", imageformat.WebP.MIMEType())
	header.Set("Cache-Control", "no-store") // a logout ends what it shows
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(picture) // if the browser is gone, the log line has the number of bytes written
	return nil
}
