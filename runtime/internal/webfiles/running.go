package webfiles

import (
	"context"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/upload"
)

// shownUploads is how many running uploads the page shows.
const shownUploads = 20

// runningUploads returns the running uploads that the page shows beside files and drafts; nil = none.
func (a *API) runningUploads(ctx context.Context, o fileOwner, state string) (*pages.RunningUploads, error) {
	if state == deletedFiles || !a.may(o.principal, account.ListDrafts) {
		return nil, nil
	}
	found, err := a.Uploads.List(ctx, o.principal, upload.RunningQuery{Limit: shownUploads})
	if err != nil {
		return nil, err
	}
	shown, now, mayCancel := &pages.RunningUploads{More: found.Next != uuid.Nil}, a.Now(), a.may(o.principal, account.UploadMedia)
	for _, running := range found.Uploads {
		shown.Uploads = append(shown.Uploads, pages.RunningUpload{ID: running.ID.String(), Name: running.Fields.FileName, Size: running.Length, Received: running.Received,
			Age: now.Sub(running.CreatedAt), ExpiresAt: running.ExpiresAt, CanCancel: mayCancel})
	}
	return shown, nil
}

// cancelUpload ends a running upload. One that has ended meanwhile is what the user wanted.
func (a *API) cancelUpload(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	a.changeFile(w, r, session, form, account.UploadMedia, func(ctx context.Context, o fileOwner, id uuid.UUID) (url.Values, error) {
		err := a.Uploads.End(ctx, o.principal, nil, id)
		if fault.Is(err, fault.NotFound) {
			return url.Values{"done": {"ended"}}, nil
		}
		return url.Values{"done": {"cancelled"}}, err
	})
}
