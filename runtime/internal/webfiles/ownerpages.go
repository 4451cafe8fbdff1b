package webfiles

import (
	"net/http"
	"net/url"
	"slices"

	"mediastack.dev/runtime/internal/oauthhttp"
)

// The pages that a login can lead to, by the names that cookies and URLs have.
const (
	listPage     = "files"
	viewPage     = "view"   // a file
	deletePage   = "delete" // the question whether to delete a file
	activityPage = "activity"
	approvalPage = "approval" // the question whether changes are carried out
)

// listParameters are the parameters of a list.
var listParameters = []string{"state", "q", "name", "type", "group", "access", "caption", "orientation", "from", "fromAt", "to", "toAt", "capturedFrom", "capturedTo", "size", "sort", "after", "before", "page"}

// OwnerPages returns the pages of this package that a login can lead to.
func OwnerPages() *oauthhttp.OwnerPages {
	return &oauthhttp.OwnerPages{
		Home: oauthhttp.OwnerPage{Name: listPage, Path: filesPath, Parameters: append([]string{"account", "app"}, listParameters...)},
		Others: []oauthhttp.OwnerPage{
			{Name: deletePage, Path: deleteFilePath, Parameters: []string{"account", "app", "item", "back"}, Required: "item", NeedsRecentLogin: true},
			{Name: viewPage, Path: viewFilePath, Parameters: []string{"account", "app", "item", "back"}, Required: "item"},
			{Name: approvalPage, Path: approvalPath, Parameters: []string{"approval"}, Required: "approval", NeedsRecentLogin: true},
			{Name: activityPage, Path: activityPath, Parameters: append([]string{"account"}, activityParameters...)},
		},
		Resume: resume,
	}
}

// resume returns the page to return to from a request that a session does not permit any more, with its parameters.
// The form of the request, if it has one, is parsed.
func resume(r *http.Request) (page string, values url.Values) {
	if r.URL.Path == activityPath {
		return activityPage, parametersOf(r.URL.Query(), append([]string{"account"}, activityParameters...))
	}
	if r.URL.Path == approvalPath || r.URL.Path == decidePath {
		values = parametersOf(r.URL.Query(), []string{"approval"})
		if id := r.PostForm.Get("approval"); id != "" {
			values.Set("approval", id)
		}
		return approvalPage, values
	}
	values = url.Values{}
	for _, name := range append([]string{"account", "app", "item", "back"}, listParameters...) {
		if value := r.URL.Query().Get(name); value != "" {
			values.Set(name, value)
		}
		// A form has what is done with files, as a new group, under names that a list has, too.
		if value := r.PostForm.Get(name); value != "" && !slices.Contains(listParameters, name) {
			values.Set(name, value)
		}
	}
	if r.URL.Path == deleteFilePath && (r.Method == http.MethodGet || r.PostForm.Get("permanent") == "1") {
		return deletePage, values
	}
	if slices.Contains([]string{viewFilePath, editFilePath, shareFilePath}, r.URL.Path) && values.Has("item") {
		return viewPage, values
	}
	if list := backQuery(values); len(list) > 0 { // a form is sent from a list
		for name := range list {
			values.Set(name, list.Get(name))
		}
	}
	return listPage, values
}
