// Package webfiles serves the files page: the files of one account of the logged-in user, in one of its apps; without a choice in the Default App. Beside it is the activity page: who did what in the account. Package oauthhttp has the login, its session and the CSRF protection of forms; package
// server mounts both. Everything that the page needs is in the URL, the form or the database, so any replica
// answers each request: notices are codes in the URL of the next page.
package webfiles

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/upload"
)

// Media are the use cases of the files page. media.Service implements it.
type Media interface {
	Find(ctx context.Context, p account.Principal, q media.Query) (media.Results, error)
	Deleted(ctx context.Context, p account.Principal, id uuid.UUID) (media.DeletedItem, error)
	ListDeleted(ctx context.Context, p account.Principal, page, limit int) (media.DeletedPage, error)
	Usage(ctx context.Context, p account.Principal) (media.Usage, error)
	Get(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error)
	Seal(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error)
	Delete(ctx context.Context, p account.Principal, id uuid.UUID, options media.DeleteOptions) (restorableUntil *time.Time, err error)
	Restore(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error)
	Update(ctx context.Context, p account.Principal, id uuid.UUID, change media.Change, condition media.Condition) (media.Item, error)
	Groups(ctx context.Context, p account.Principal, access media.Access, after string, limit int) (groups []media.ItemCount, next string, err error)
}

// Uploads receive files, and list and end resumable uploads that are running. upload.Service implements it.
type Uploads interface {
	Begin(ctx context.Context, p account.Principal, sizeHint int64) (*upload.Single, error)
	List(ctx context.Context, p account.Principal, q upload.RunningQuery) (upload.RunningPage, error)
	End(ctx context.Context, p account.Principal, capability *upload.Capability, id uuid.UUID) error
}

var (
	_ Media   = (*media.Service)(nil)
	_ Uploads = (*upload.Service)(nil)
)

// Deps are the dependencies of an API.
type Deps struct {
	// Login finds the session of the user, and writes pages. It was made with OwnerPages.
	Login *oauthhttp.API
	OAuth *oauth.Service
	Pages *pages.Pages
	// Limits bounds the requests of a key; nil = no limit.
	Limits *ratelimit.Limiter
	// BaseURL is the public URL of the service.
	BaseURL string
	Media   Media
	Uploads Uploads
	// Activity are the events of accounts.
	Activity *journal.Activity
	// Approvals are what waits for an owner; nil = nothing does.
	Approvals Approvals
	URLs      api.URLs
	Links     Links
	Objects   Objects
	// ArchiveRate is how many bytes per second the client of an archive must read while others want its slot; 0 = none.
	ArchiveRate int64
	// Signatures are those of uploads by the script of the page.
	Signatures Signatures
	// Inline reports whether a browser may display a type.
	Inline func(mimeType string) bool
	// Settings are those of accounts, by which originals are public.
	Settings api.SettingsOf
	// StoreOrigin returns the origin to which the URLs of a bucket's files redirect; empty = they do not.
	StoreOrigin func(ctx context.Context, bucket string) (string, error)
	// DraftTTL is the age at which a draft is purged.
	DraftTTL time.Duration
	// CheckWritable rejects operations that cannot be carried out now.
	CheckWritable func(account.Operation) error
	Now           func() time.Time
}

// API serves the files page. It is safe for concurrent use.
type API struct {
	Deps
	cfg      Config
	archives *archiveSlots
}

// Paths of the page and its forms.
const (
	filesPath        = oauthhttp.AccountPaths + "files"
	uploadFilePath   = filesPath + "/upload"
	viewFilePath     = filesPath + "/view"
	editFilePath     = filesPath + "/edit"
	thumbnailPath    = filesPath + "/thumbnail"
	signaturePath    = filesPath + "/signature"
	selectedPath     = filesPath + "/selected"
	shareFilePath    = filesPath + "/share"
	sealFilePath     = filesPath + "/seal"
	deleteFilePath   = filesPath + "/delete"
	restoreFilePath  = filesPath + "/restore"
	cancelUploadPath = filesPath + "/cancel"

	activityPath = oauthhttp.AccountPaths + "activity"
)

// New returns an API that uses deps.
func New(cfg Config, deps Deps) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &API{Deps: deps, cfg: cfg, archives: newArchiveSlots(cfg.Archives, deps.Now)}, nil
}

// Mount adds the routes.
func (a *API) Mount(r chi.Router) {
	r.Get(filesPath, a.showFiles)
	r.Get(activityPath, a.showActivity)
	r.Get(deleteFilePath, a.showDeleteFile)
	r.Get(approvalPath, a.showApproval)
	r.Post(decidePath, a.Login.CSRFProtected(a.decide))
	r.Get(decidePath, a.redirectToApproval)
	r.Post(uploadFilePath, a.uploadFile)
	r.Get(viewFilePath, a.showFile)
	r.Get(thumbnailPath, a.showDeletedThumbnail)
	r.Post(editFilePath, a.Login.CSRFProtectedText(a.editFile, typedTexts))
	r.Post(shareFilePath, a.Login.CSRFProtectedUpTo(formLimit(1), a.shareFile))
	r.Post(signaturePath, a.Login.CSRFProtected(a.signUploads))
	r.Post(selectedPath, a.Login.CSRFProtectedUpTo(formLimit(a.cfg.PerPage), a.changeSelected))
	r.Post(sealFilePath, a.Login.CSRFProtectedUpTo(formLimit(1), a.sealFile))
	r.Post(deleteFilePath, a.Login.CSRFProtectedUpTo(formLimit(1), a.deleteFile))
	r.Post(restoreFilePath, a.Login.CSRFProtectedUpTo(formLimit(1), a.restoreFile))
	r.Post(cancelUploadPath, a.Login.CSRFProtectedUpTo(formLimit(1), a.cancelUpload))
	for _, path := range []string{uploadFilePath, editFilePath, shareFilePath, selectedPath, signaturePath, sealFilePath, restoreFilePath, cancelUploadPath} {
		r.Get(path, a.redirectToFiles)
	}
}

const (
	// listFormBytes is the room of a form for the list to return to, whose texts are encoded twice: up to 18 bytes for a character of the search or of
	// a group, and 9 for the byte of a name; for a group that is typed, and for the fields of its session.
	listFormBytes = 48 << 10
	// itemFormBytes is the room for the id of an item.
	itemFormBytes = 48
)

// formLimit returns the largest size of a form about up to this many items of a list, in bytes.
func formLimit(items int) int64 { return listFormBytes + int64(items)*itemFormBytes }

// redirectToApproval handles GET requests for the URL of the form of an approval.
func (a *API) redirectToApproval(w http.ResponseWriter, r *http.Request) {
	query := url.Values{}
	for _, name := range []string{"request", "approval"} {
		query.Set(name, r.URL.Query().Get(name))
	}
	a.Login.SeeOther(w, approvalPath+"?"+query.Encode())
}

// redirectToFiles handles GET requests for the URL of a form, where the browser stays if the form is
// answered with an error.
func (a *API) redirectToFiles(w http.ResponseWriter, r *http.Request) {
	query := url.Values{}
	for _, name := range []string{"request", "account", "app"} {
		query.Set(name, r.URL.Query().Get(name))
	}
	a.Login.SeeOther(w, filesPath+"?"+query.Encode())
}
