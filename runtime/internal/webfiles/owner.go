package webfiles

import (
	"maps"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// fileOwner is the logged-in user of a request, and the principal whose files are shown.
type fileOwner struct {
	session   oauth.LoginSession
	principal account.Principal
}

// app returns the name of the app as URLs have it: nothing for the Default App, so that links without it lead there.
func (o fileOwner) app() string {
	if o.principal.App.Name == account.DefaultApp {
		return ""
	}
	return o.principal.App.Name
}

// accountView returns the account, with the app, as the pages show it.
func (o fileOwner) accountView() pages.Account {
	view := oauthhttp.AccountView(o.principal.Account)
	view.App = o.app()
	return view
}

// url returns the URL of a page or a form about the account. query has the other parameters.
func (o fileOwner) url(path string, query url.Values) string {
	all := url.Values{}
	maps.Copy(all, query)
	all.Set("account", o.principal.Account.ID.String())
	if app := o.app(); app != "" {
		all.Set("app", app)
	}
	return oauthhttp.SessionURL(path, o.session, all)
}

// findFileOwner returns the owner with the account that the text names and the app that the URL names, and counts the request
// towards the limit of its key, as a request with a token of a login. From here on the request has a
// credential.
func (a *API) findFileOwner(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, text string) (fileOwner, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return fileOwner{}, oauth.ReasonNotOwner.Fault()
	}
	p, err := a.OAuth.Principal(r.Context(), session, id, r.URL.Query().Get("app"))
	if err != nil {
		return fileOwner{}, err
	}
	decision := a.Limits.AllowKey(p.Key.ID)
	decision.AddHeaders(w.Header())
	if err := decision.Err(); err != nil {
		return fileOwner{}, err
	}
	info := httpapi.FromContext(r.Context())
	info.AccountID, info.AppID, info.KeyID = p.Account.ID, p.App.ID, p.Key.ID
	info.Account = accountmetrics.Account{ID: p.Account.ID, Namespace: p.Account.Namespace, Name: p.Account.Name}
	if err := httpapi.AdmitBody(r.Context(), p.Account.ID); err != nil {
		return fileOwner{}, err
	}
	return fileOwner{session: session, principal: p}, nil
}

// checkOperation rejects what a login may not do in the account, and changes that cannot be carried
// out now.
func (a *API) checkOperation(p account.Principal, operation account.Operation) error {
	if !p.Account.ToolPolicy.Allows(operation) {
		return fault.New(fault.Forbidden, "This account does not allow logins to do this.")
	}
	return a.CheckWritable(operation)
}

// may reports whether a login may do something in the account.
func (a *API) may(p account.Principal, operation account.Operation) bool {
	return a.checkOperation(p, operation) == nil
}
