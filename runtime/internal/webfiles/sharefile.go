package webfiles

import (
	"net/http"
	"net/url"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/settings"
)

// Links makes links that live for a time of the user's choice. delivery.URLs implements it.
type Links interface {
	// LinkUntil returns the URL of the file of an item, which is signed and expires at a time.
	LinkUntil(item media.Item, until time.Time) string
}

// lifetimes are how long a link can be good for.
var lifetimes = []struct {
	value, name string
	of          time.Duration
}{
	{"1h", "1 hour", time.Hour}, {"1d", "1 day", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour}, {"30d", "30 days", 30 * 24 * time.Hour},
}

// shareOf returns the form of links to an item, with the link that was made. A public file has a link that does not expire; one that is not kept
// yet may be gone before its link. It is nil if links to private files are off.
func (a *API) shareOf(item media.Item, originals settings.Originals, made *pages.ShareFile) *pages.ShareFile {
	if item.Draft() {
		return nil
	}
	if item.Access == media.Public && (item.File().Variant != media.Original || originals == settings.OriginalsPublic) {
		return &pages.ShareFile{URL: a.URLs.FileURL(item, originals)}
	}
	share := pages.ShareFile{}
	if made != nil {
		share = *made
	}
	for _, one := range lifetimes {
		if one.of <= a.cfg.MaxShare {
			share.Times = append(share.Times, pages.Option{Value: one.value, Name: one.name, Selected: one.value == "7d"})
		}
	}
	if len(share.Times) == 0 {
		return nil
	}
	return &share
}

// shareFile makes a link to a private item, for those who may make it public: it lives longer than the links of the APIs. The link is on the page that answers, and in no URL of the service.
func (a *API) shareFile(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	o, err := a.findFileOwner(w, r, session, form.Get("account"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	item, _, err := a.itemOf(r.Context(), o, form, account.UpdateMedia)
	var made *pages.ShareFile
	if err == nil {
		made, err = a.makeLink(item, form.Get("lifetime"))
	}
	a.writeViewPage(w, r, o, form, viewMessage{err: err, share: made})
}

// makeLink returns a link that is good for a lifetime.
func (a *API) makeLink(item media.Item, lifetime string) (*pages.ShareFile, error) {
	if item.Draft() {
		return nil, fault.New(fault.Conflict, "Keep the file before you share it.")
	}
	for _, one := range lifetimes {
		if one.value == lifetime && one.of <= a.cfg.MaxShare {
			until := a.Now().Add(one.of).Truncate(time.Second)
			return &pages.ShareFile{URL: a.Links.LinkUntil(item, until), Until: until}, nil
		}
	}
	return nil, fault.New(fault.Invalid, "Choose how long the link is good for.")
}
