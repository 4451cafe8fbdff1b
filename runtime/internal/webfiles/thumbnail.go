package webfiles

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

// maxThumbnail bounds the thumbnail of a deleted file, in bytes.
const maxThumbnail = 1 << 20

// errNoThumbnail is the error of every thumbnail that is not shown.
var errNoThumbnail = fault.New(fault.NotFound, "there is no such thumbnail")

// deletedThumbnailURL returns the URL of the thumbnail of a deleted file, which has no public address: it is good in the session that has seen the
// file in the list; empty = there is no thumbnail.
func (a *API) deletedThumbnailURL(o fileOwner, item media.Item) string {
	thumbnail, ok := item.Objects.Find(media.Thumbnail)
	if !ok || thumbnail.MimeType != imageformat.WebP.MIMEType() {
		return ""
	}
	return o.url(thumbnailPath, url.Values{"key": {thumbnail.Key}, "mac": {a.thumbnailMAC(o.session, o.principal.Account.ID, thumbnail.Key)}})
}

// thumbnailMAC returns the proof that a list of the session had a thumbnail. Its key is the secret of the session's forms.
func (a *API) thumbnailMAC(session oauth.LoginSession, accountID uuid.UUID, key string) string {
	mac := hmac.New(sha256.New, []byte(a.OAuth.CSRFToken(session)))
	mac.Write([]byte("thumbnail\n" + accountID.String() + "\n" + key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// showDeletedThumbnail sends the thumbnail of a deleted file to the session that has seen it in the list. It starts no login: it is a picture.
func (a *API) showDeletedThumbnail(w http.ResponseWriter, r *http.Request) {
	if err := a.sendDeletedThumbnail(w, r); err != nil {
		httpapi.WriteError(w, r, err)
	}
}

func (a *API) sendDeletedThumbnail(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	session, ok := a.Login.User(r)
	accountID, err := uuid.Parse(query.Get("account"))
	if !ok || err != nil || !hmac.Equal([]byte(query.Get("mac")), []byte(a.thumbnailMAC(session, accountID, query.Get("key")))) {
		return errNoThumbnail
	}
	p, err := a.OAuth.Principal(r.Context(), session, accountID, query.Get("app"))
	if err != nil {
		return err
	}
	if err := a.checkOperation(p, account.ListDeletedMedia); err != nil {
		return err
	}
	content, err := a.Objects.Open(r.Context(), p.Account.Bucket, query.Get("key"), 0, -1)
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
	header.Set("Cache-Control", "private, max-age=300")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(picture) // if the browser is gone, the log line has the number of bytes written
	return nil
}
