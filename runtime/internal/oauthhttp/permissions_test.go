package oauthhttp_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/internal/tus"
	"mediastack.dev/runtime/oauth"
)

// reviewed has, for everything that a login permits, the words of the consent page that name it. Who adds
// a route, a tool or a member reads the texts in pages/permissions.go, changes them if they do not name
// what it does, and adds it here.
var reviewed = struct {
	// operations are those of account/operation.go, which are the tools, too. A path of the OpenAPI document that is the
	// only one of its operation has the words of the operation. Routes are those of other paths, of TUS, and those
	// that do more.
	operations map[account.Operation]string
	routes     map[string]string
	// members are those of the bodies that change something, by schema.
	members map[string]map[string]string
}{
	operations: map[account.Operation]string{
		account.ListMedia:             "List, search and download all files of the account, also private ones and drafts",
		account.GetMedia:              "Get links to private files",
		account.SearchMedia:           "List, search and download",
		account.ListDrafts:            "also private ones and drafts",
		account.ListGroups:            "with their captions, groups and other details",
		account.ListMetadataKeys:      "with their captions, groups and other details",
		account.GetMediaCount:         "List, search and download",
		account.GetTotalStorage:       "how much is stored",
		account.GetUploadFromURL:      "uploads that are not complete yet",
		account.GetMediaSettings:      "the settings for images",
		account.ListActivity:          "See who has added, changed and deleted files, and when",
		account.ViewMedia:             "download all files of the account",
		account.RequestUpload:         "Let others upload files to your account without a login",
		account.GetUpload:             "List, search and download", // only of what it has requested itself
		account.GetApproval:           "List, search and download", // only of what it has asked for itself
		account.ListDeletedMedia:      "See deleted files that can be restored",
		account.UploadMedia:           "Upload files",
		account.UploadMediaFromURL:    "also from other websites",
		account.SealMedia:             "keep drafts",
		account.UpdateMedia:           "Change names, captions, groups and other details of files",
		account.RestoreMedia:          "restore deleted files",
		account.CreateUploadSignature: "Let others upload files to your account without a login",
		account.UpdateMediaSettings:   "Change how images are converted",
		account.DeleteMedia:           "Delete files and drafts.",
	},
	routes: map[string]string{
		"GET /media/get/{mediaId}":                  "with their captions, groups and other details",
		"POST /media/get/{mediaId}":                 "with their captions, groups and other details",
		"GET /media/get":                            "List, search and download",
		"POST /media/get":                           "List, search and download",
		"GET /events":                               "See who has added, changed and deleted files, and when",
		"GET /media/uploads":                        "uploads that are not complete yet",
		"DELETE /media/uploads/{uploadId}":          "cancel uploads that are not complete yet",
		"POST /media/create":                        "Upload files",
		"PATCH /media/{mediaId}":                    "Make private files public",
		"POST /media/batch":                         "Change names, captions, groups and other details of files, and restore deleted files",
		"POST /media/create/resumable":              "Upload files",
		"HEAD /media/create/resumable/{uploadId}":   "Upload files",
		"PATCH /media/create/resumable/{uploadId}":  "Upload files",
		"POST /media/create/resumable/{uploadId}":   "Upload files",
		"DELETE /media/create/resumable/{uploadId}": "cancel uploads that are not complete yet",
	},
	members: map[string]map[string]string{
		"MediaPatch": {
			"access":   "Make private files public: everyone with the link can see them then. Make public files private.",
			"caption":  "captions",
			"fileName": "Change names",
			"focus":    "other details of files",
			"group":    "groups",
			"metadata": "other details of files",
		},
		"Upload":           {"access": "Make private files public", "caption": "captions", "file": "Upload files", "group": "groups", "metadata": "other details of files"},
		"URLUploadRequest": {"access": "Make private files public", "caption": "captions", "fileName": "Upload files", "group": "groups", "metadata": "other details of files", "seal": "keep drafts", "url": "also from other websites"},
		"SignatureRequest": {
			"access": "Make private files public", "count": "Let others upload", "expiresIn": "for a limited time", "group": "groups", "maxBytes": "Let others upload", "metadata": "other details of files",
			"ref": "other details of files", "seal": "keep drafts", "types": "Let others upload",
		},
		"SettingsChange": {
			"changed": "", "pinnedBy": "", "sources": "", // ignored in a request
			"derivatives":     "how images are converted",
			"originals":       "whether everyone with the link to a public image can download its original",
			"presets":         "in which sizes they are shown",
			"thumbnailHeight": "in which sizes they are shown", "thumbnailWidth": "in which sizes they are shown",
			"useWebP": "how images are converted", "webpOutputQuality": "how images are converted",
		},
	},
}

// changeSchemas are the schemas of requests that change something: all of their members need a text.
func changeSchemas() []string { return slices.Sorted(maps.Keys(reviewed.members)) }

// The page named uploads, seals and conversions, and nothing else of what media:write permits.
func TestConsent_NamesAllThatAScopePermits(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t, webtest.Many).Browser(t)
	texts := map[oauth.Scope]string{}
	for _, scope := range oauth.Scopes() {
		page := b.Login(b.Application("App").Query(url.Values{"scope": {string(scope)}}), webtest.Owner)
		texts[scope] = permissionText(t, page)
	}
	says := func(what string, scope oauth.Scope, words string, known bool) {
		t.Helper()
		switch {
		case !known:
			t.Errorf("%s: nobody has reviewed what the consent page says about it for %s", what, scope)
		case !strings.Contains(texts[scope], words):
			t.Errorf("%s: the consent page does not say %q for %s: %s", what, words, scope, texts[scope])
		}
	}
	for _, operation := range account.Operations() {
		words, ok := reviewed.operations[operation]
		says(string(operation), auth.ScopeOf(operation), words, ok)
	}
	operations, err := api.Operations()
	must(t, err)
	paths := map[account.Operation]int{}
	for _, operation := range operations {
		paths[operation]++
	}
	document := specification(t)
	for _, route := range document.routes(t) {
		words, ok := reviewed.routes[route.name]
		if operation := operations[route.path]; !ok && paths[operation] == 1 {
			words, ok = reviewed.operations[operation]
		}
		says(route.name, route.scope, words, ok)
	}
	routes := chi.NewRouter()
	(&tus.API{}).Mount(routes)
	must(t, chi.Walk(routes, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodOptions { // which has no credential
			words, ok := reviewed.routes[method+" "+path]
			says(method+" "+path, auth.ScopeOf(account.UploadMedia), words, ok)
		}
		return nil
	}))
	for _, schema := range changeSchemas() {
		members := document.Components.Schemas[schema].Properties
		if len(members) == 0 {
			t.Errorf("the document has no %s", schema)
		}
		for member := range members {
			words, ok := reviewed.members[schema][member]
			says(schema+"."+member, oauth.ScopeWrite, words, ok)
		}
	}
}

// The text about deletes is that of the account's setting when the page is shown.
func TestConsent_SaysWhetherDeletesCanBeUndone(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	text := func() string {
		t.Helper()
		b := rt.Browser(t)
		return permissionText(t, b.Login(b.Application("App").Query(url.Values{"scope": {"media:delete"}}), webtest.Owner))
	}
	if got := text(); !strings.Contains(got, "Files are deleted for good: nobody can restore them.") {
		t.Errorf("without undo: %s", got)
	}
	w.Change(t, tenant, func(s *account.Spec) { s.Undo = account.Undo{Window: 72 * time.Hour, For: account.UndoAgents} })
	if got := text(); !strings.Contains(got, "You can restore deleted files for 3 days, unless an upload needs their room before. Drafts are deleted for good.") {
		t.Errorf("with undo: %s", got)
	}
	other := w.OwnedTenant(t, "archive", webtest.Owner)
	if got := text(); !strings.Contains(got, "In The "+other.Account.Name+": Files are deleted for good") || !strings.Contains(got, "In The studio: You can restore deleted files for 3 days") {
		t.Errorf("with two accounts: %s", got)
	}
}

// permissionText returns what the consent page says that the application will be able to do.
func permissionText(t *testing.T, p webtest.Page) string {
	t.Helper()
	var texts []string
	for _, list := range p.Elements(t, "ul") {
		if class := webtest.AttributeOf(list, "class"); class == "permissions" || class == "permission-details" {
			texts = append(texts, webtest.TextOf(list))
		}
	}
	if len(texts) == 0 {
		t.Fatalf("no permissions on the page: %d %s", p.StatusCode, p.Text)
	}
	return strings.Join(texts, " ")
}

// spec is the part of the OpenAPI document that the tests read.
type spec struct {
	Security   []map[string][]oauth.Scope
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas map[string]struct{ Properties map[string]json.RawMessage }
	}
}

func specification(t *testing.T) spec {
	t.Helper()
	text, err := api.RenderSpec(webtest.BaseURL, "service")
	must(t, err)
	var document spec
	must(t, json.Unmarshal(text, &document))
	return document
}

// scopedRoute is a route that a login reaches with a scope.
type scopedRoute struct {
	name, path string
	scope      oauth.Scope
}

// routes returns the routes that a login reaches: one for each of their scopes.
func (s spec) routes(t *testing.T) []scopedRoute {
	t.Helper()
	var found []scopedRoute
	for path, methods := range s.Paths {
		for method, text := range methods {
			if !slices.Contains([]string{"get", "head", "post", "put", "patch", "delete"}, method) {
				continue
			}
			operation := struct {
				Security *[]map[string][]oauth.Scope
			}{}
			must(t, json.Unmarshal(text, &operation))
			security := s.Security
			if operation.Security != nil {
				security = *operation.Security
			}
			for _, alternative := range security {
				// A batch of deletes needs media:delete, which the operation has a text for.
				for _, scope := range alternative["login"] {
					if path != api.BatchRoute || scope != oauth.ScopeDelete {
						found = append(found, scopedRoute{strings.ToUpper(method) + " " + path, path, scope})
					}
				}
			}
		}
	}
	return found
}
