package webupload_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/oauth"
)

var png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00")

// What the request says of the file is held against the file, and a file that is rejected leaves the address as it was.
func TestPage_HoldsTheFileAgainstTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	key := runtimetest.Key(one.Key)
	of := rt.request(t, key, object{"types": []string{"image/*"}, "maxBytes": 1000, "caption": "a caption", "group": "g"})
	for name, tt := range map[string]struct {
		file   option
		status int
		says   string
	}{
		"text that says it is a picture": {form("a.png", "image/png", []byte("no picture")), http.StatusUnsupportedMediaType, "of another type than those that are asked for"},
		"a file that is too large":       {form("a.png", "image/png", append(png, make([]byte, 1000)...)), http.StatusRequestEntityTooLarge, "The file is too large."},
	} {
		got := rt.do(t, http.MethodPost, of.Page, tt.file)
		if got.Status != tt.status || !strings.Contains(string(got.Body), tt.says) || !strings.Contains(string(got.Body), "<form") {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
		if program := rt.do(t, http.MethodPost, of.UploadURL, tt.file); program.Status/100 != 4 {
			t.Errorf("%s, of a program: %d %s", name, program.Status, program.Body)
		}
	}
	w.Counts(t, 0, "rows of files that were rejected", `SELECT (SELECT count(*) FROM item) + (SELECT count(*) FROM upload) + (SELECT sum(uses) FROM (SELECT uses FROM capability_use UNION ALL SELECT 0) AS u)`)
	all := rt.request(t, key, object{})
	if got := rt.do(t, http.MethodPost, all.Page, form("", "application/octet-stream", nil)); got.Status != http.StatusBadRequest || !strings.Contains(string(got.Body), "Choose a file.") {
		t.Errorf("no file: %d %s", got.Status, got.Body)
	}
	w.Counts(t, 0, "items of a form without a file", `SELECT count(*) FROM item`)
	if got := rt.do(t, http.MethodPost, of.Page, form("a.png", "image/png", png)); got.Status != http.StatusOK {
		t.Fatalf("a picture: %d %s", got.Status, got.Body)
	}
	w.Counts(t, 1, "items as the request says", `SELECT count(*) FROM item WHERE caption = 'a caption' AND group_label = 'g' AND access = 'private'`)
}

// Arguments that cannot hold are rejected, and nothing is recorded.
func TestRequestUpload_RejectsWhatCannotHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	for says, arguments := range map[string]object{
		"maxBytes must be 1 or more":      {"maxBytes": 0},
		"maxBytes must be at most":        {"maxBytes": 1 << 40},
		"types must have 1 to":            {"types": []string{}},
		"types must be media types":       {"types": []string{"png"}},
		"caption must be at most":         {"caption": strings.Repeat("x", 5000)},
		"group must be at most":           {"group": strings.Repeat("x", 300)},
		"seal must be true or false":      {"seal": "yes"},
		"unknown argument":                {"access": "public"},
		"what the signature permits take": {"caption": strings.Repeat("x", 4000), "group": strings.Repeat("y", 250)},
	} {
		if _, err := call[requested](t, rt, "request_upload", arguments, runtimetest.Key(one.Key)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60v: %v, want %q", arguments, err, says)
		}
	}
	w.Counts(t, 0, "requests", `SELECT count(*) FROM upload_request`)
}

// The address ends with what the request came from.
func TestPage_EndsWithTheConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, end := range map[string]func(t *testing.T, of tenant){
		"the login is revoked": func(t *testing.T, of tenant) {
			w.Exec(t, `UPDATE oauth_grant SET revoked_at = now() WHERE account_id = $1`, of.Account.ID)
		},
		"the user is no owner": func(t *testing.T, of tenant) {
			w.Exec(t, `UPDATE account SET owners = '{}' WHERE id = $1`, of.Account.ID)
		},
		"the tool is not permitted": func(t *testing.T, of tenant) {
			w.Change(t, of, func(s *account.Spec) { s.ToolPolicy.Tools = []string{"upload_media"} })
		},
		"the toolset is not offered": func(t *testing.T, of tenant) {
			w.Change(t, of, func(s *account.Spec) { s.ToolPolicy.Toolsets = nil })
		},
		"the account is suspended": func(t *testing.T, of tenant) { w.Change(t, of, func(s *account.Spec) { s.Suspended = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := w.tenant(t, "a"+uuid.NewString()[:8])
			rt := w.replica(t)
			login := bearer(w.session(t, one))
			of, running := rt.request(t, login, object{}), rt.request(t, login, object{})
			location := rt.create(t, running, "6")
			rt.part(t, location, "0", "abc").MustBe(t, http.StatusNoContent, "a part")
			rt.shows(t, of, http.StatusOK, "<form")
			end(t, one)
			rt.shows(t, of, http.StatusGone, "is not valid anymore")
			// The page asks the database. What has no body is answered from the cache of sessions, which a notification ends.
			wait.Until(t, "the replica knows of the end", func() bool { return rt.do(t, http.MethodHead, location, tus("")).Status/100 == 4 })
			for what, got := range map[string]answer{
				"the form":      rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))),
				"a program":     rt.do(t, http.MethodPost, of.UploadURL, form("a.txt", "text/plain", []byte("abc"))),
				"a new upload":  rt.do(t, http.MethodPost, of.ResumableURL, tus("", "Upload-Length", "3")),
				"the last part": rt.part(t, location, "3", "def"),
			} {
				if got.Status/100 != 4 {
					t.Errorf("%s: %d %s", what, got.Status, got.Body)
				}
			}
			w.Counts(t, 0, "items", `SELECT count(*) FROM item WHERE account_id = $1`, one.Account.ID)
		})
	}
}

// An address ends with its time. What began in time goes on.
func TestPage_EndsWithItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	key := runtimetest.Key(one.Key)
	of, running := rt.request(t, key, object{}), rt.request(t, key, object{})
	location := rt.create(t, running, "6")
	rt.part(t, location, "0", "abc").MustBe(t, http.StatusNoContent, "a part")
	rt.Clock.Advance(time.Hour)
	rt.shows(t, of, http.StatusOK, "The time for this file is over")
	rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusForbidden, "the form")
	rt.do(t, http.MethodPost, of.ResumableURL, tus("", "Upload-Length", "3")).MustBe(t, http.StatusForbidden, "a new upload")
	if got := rt.stateOf(t, key, of); got.State != "expired" || !strings.Contains(got.Message, "request_upload") {
		t.Errorf("the state is %+v", got)
	}
	rt.part(t, location, "3", "def").MustBe(t, http.StatusNoContent, "the last part of an upload that began in time")
	if got := rt.stateOf(t, key, running); got.State != "uploaded" {
		t.Errorf("the state is %+v", got)
	}
}

// Another connection, app or account learns nothing of a request, and its token opens nothing else.
func TestRequest_IsOfItsConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.tenant(t, "one"), w.tenant(t, "two")
	rt := w.replica(t)
	of := rt.request(t, runtimetest.Key(one.Key), object{})
	for name, other := range map[string]option{"another account": runtimetest.Key(two.Key), "a login of the account": bearer(w.session(t, one)), "another app": runtimetest.Key(w.AddApp(t, one, "blog").Key)} {
		if _, err := call[state](t, rt, "get_upload", object{"uploadId": of.UploadID}, other); err == nil || !strings.Contains(err.Error(), "there is no such request") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, unknown := call[state](t, rt, "get_upload", object{"uploadId": uuid.NewString()}, runtimetest.Key(one.Key))
	if unknown == nil || !strings.Contains(unknown.Error(), "there is no such request") {
		t.Errorf("a request that does not exist: %v", unknown)
	}
	token := of.Page[strings.LastIndex(of.Page, "/")+1:]
	for _, credential := range []option{runtimetest.Key(token), bearer(token), runtimetest.Signature(token)} {
		for _, line := range []string{"GET /media/list", "POST /media/create", "GET /media/totals", "GET /media/uploads", "POST /mcp"} {
			method, path, _ := strings.Cut(line, " ")
			if got := rt.do(t, method, path, form("a", "text/plain", []byte("x")), credential); got.Status/100 != 4 {
				t.Errorf("%s with the token: %d %s", line, got.Status, got.Body)
			}
		}
	}
	// An upload of another request is not reached below the address of this one.
	other := rt.request(t, runtimetest.Key(one.Key), object{})
	location := rt.create(t, other, "6")
	id := location[strings.LastIndex(location, "/")+1:]
	for _, method := range []string{http.MethodHead, http.MethodDelete} {
		rt.do(t, method, of.ResumableURL+"/"+id, tus("")).MustBe(t, http.StatusNotFound, "%s of the upload of another request", method)
	}
	for _, path := range []string{"/resumable/..%2f..%2flist", "/resumable/x", "/file/x", "/again/x", "/../list"} {
		if got := rt.do(t, http.MethodGet, of.Page+path); got.Status < 400 && strings.Contains(string(got.Body), "mediaItems") {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	wrong := strings.Repeat("0", 43)
	for _, page := range []string{"/upload/mup_000" + wrong, "/upload/x", "/upload/" + one.Key, "/upload/mup_000" + wrong + "/file"} {
		rt.do(t, http.MethodGet, page).MustBe(t, map[bool]int{true: 405, false: 404}[strings.HasSuffix(page, "/file")], "%s", page)
	}
	w.Counts(t, 0, "items", `SELECT count(*) FROM item`)
}

// The page names the file that was handed over, and nothing that the owner makes of it: it showed the name that the item has now.
func TestPage_ShowsNoLaterNameOfTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	key := runtimetest.Key(one.Key)
	of := rt.request(t, key, object{})
	rt.do(t, http.MethodPost, of.Page, form("scan.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusOK, "the form")
	rt.shows(t, of, http.StatusOK, "scan.txt", "is stored")
	id := rt.stateOf(t, key, of).MediaID
	rt.do(t, http.MethodPost, "/media/seal/"+id, key).MustBe(t, http.StatusOK, "seal")
	rt.shows(t, of, http.StatusOK, "scan.txt", "is stored")
	rt.do(t, http.MethodPatch, "/media/"+id, key, runtimetest.Header("Content-Type", "application/json"), runtimetest.Text(`{"fileName": "dismissal.txt"}`)).MustBe(t, http.StatusOK, "rename")
	rt.shows(t, of, http.StatusOK, "The file (3 bytes) is stored")
	if got := rt.do(t, http.MethodGet, of.Page); strings.Contains(string(got.Body), "dismissal") || strings.Contains(string(got.Body), "scan.txt") {
		t.Errorf("the page is %s", got.Body)
	}
}

// A client that tries many tokens is rejected.
func TestPage_BoundsGuesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *runtimetest.ServiceConfig) { o.Limits = ratelimit.Config{Failures: 0.001, FailuresBurst: 5} })
	of := rt.request(t, runtimetest.Key(one.Key), object{})
	limited := 0
	for i := range 20 {
		if rt.do(t, http.MethodGet, fmt.Sprintf("/upload/mup_000%043d", i)).Status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited != 15 {
		t.Errorf("%d of 20 guesses were limited, want 15", limited)
	}
	rt.do(t, http.MethodGet, of.Page).MustBe(t, http.StatusTooManyRequests, "the page for the same client")
}

// What a person has opened goes on, whatever others behind the same IP address send. It ended with 429 in the middle of an upload.
func TestPage_GuessesLockNobodyOutOfAnUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *runtimetest.ServiceConfig) { o.Limits = ratelimit.Config{Failures: 0.001, FailuresBurst: 5} })
	opened, running := rt.request(t, runtimetest.Key(one.Key), object{}), rt.request(t, runtimetest.Key(one.Key), object{})
	rt.shows(t, opened, http.StatusOK, "<form")
	location := rt.create(t, running, "6")
	for i := range 20 {
		rt.do(t, http.MethodGet, "/media/get", runtimetest.Key(fmt.Sprintf("wrong%d", i)))
		rt.do(t, http.MethodGet, fmt.Sprintf("/upload/mup_000%043d", i))
	}
	rt.do(t, http.MethodGet, "/upload/mup_000"+strings.Repeat("1", 43)).MustBe(t, http.StatusTooManyRequests, "a guess")
	rt.part(t, location, "0", "abcdef").MustBe(t, http.StatusNoContent, "the upload")
	rt.do(t, http.MethodPost, opened.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusOK, "the form")
	w.Counts(t, 2, "items", `SELECT count(*) FROM item`)
	// What has ended is a guess as any other one.
	w.Exec(t, `DELETE FROM upload_request`)
	rt.do(t, http.MethodGet, opened.Page).MustBe(t, http.StatusNotFound, "the first look-up of an address that is gone")
	rt.do(t, http.MethodGet, opened.Page).MustBe(t, http.StatusTooManyRequests, "the second one")
}

// So many requests of one connection wait.
func TestRequestUpload_IsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	key := runtimetest.Key(one.Key)
	first := rt.request(t, key, object{})
	w.Exec(t, `INSERT INTO upload_request (id, account_id, app_id, key_id, connection, capability_id, capability, expires_at)
		SELECT gen_random_uuid(), account_id, app_id, key_id, connection, sha256(n::text::bytea), capability, expires_at FROM upload_request, generate_series(2, $1::int) n`, handover.MaxOpen)
	if _, err := call[requested](t, rt, "request_upload", object{}, key); err == nil || !strings.Contains(err.Error(), "100 requests for a file wait already") {
		t.Errorf("one request too many: %v", err)
	}
	login := bearer(w.session(t, one))
	rt.request(t, login, object{}) // another connection has its own bound
	// An upload that was begun and given up freed a place, so that the bound was none.
	location := rt.create(t, first, "6")
	rt.do(t, http.MethodDelete, location, tus("")).MustBe(t, http.StatusNoContent, "give the upload up")
	if _, err := call[requested](t, rt, "request_upload", object{}, key); err == nil || !strings.Contains(err.Error(), "100 requests for a file wait already") {
		t.Errorf("one request too many, after an upload was given up: %v", err)
	}
	rt.do(t, http.MethodPost, first.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusOK, "the first one")
	rt.request(t, key, object{})
}

// A login without the permission to change media cannot request files.
func TestRequestUpload_NeedsThePermissionToWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	if _, err := call[requested](t, rt, "request_upload", object{}, bearer(w.Session(t, one, oauth.ScopeRead))); err == nil || !strings.Contains(err.Error(), "media:write") {
		t.Errorf("with media:read: %v", err)
	}
}

// An upload counts for the connection that has requested it.
func TestPage_CountsTowardsTheCeilings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.ToolPolicy.Ceilings.Each.UploadBytesPerDay = 10 })
	rt := w.replica(t)
	key := runtimetest.Key(one.Key)
	of, more := rt.request(t, key, object{}), rt.request(t, key, object{})
	rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("12345678"))).MustBe(t, http.StatusOK, "within the ceiling")
	got := rt.do(t, http.MethodPost, more.Page, form("a.txt", "text/plain", []byte("12345678")))
	if got.Status != http.StatusTooManyRequests {
		t.Errorf("over the ceiling: %d %s", got.Status, got.Body)
	}
	w.Counts(t, 1, "items", `SELECT count(*) FROM item`)
}

// Programs were told what "the upload signature" permits: they have an address, and never saw a signature.
func TestUploadURL_IsAnsweredInWordsOfTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	login := bearer(w.session(t, one))
	wanted := object{"types": []string{"image/png", "video/*"}, "maxBytes": 1000, "group": "g"}
	of, taken, late, ended := rt.request(t, login, wanted), rt.request(t, login, wanted), rt.request(t, login, wanted), rt.request(t, login, wanted)
	if got := rt.do(t, http.MethodPost, taken.UploadURL, form("a.png", "image/png", png)); got.Status/100 != 2 {
		t.Fatalf("a picture: %d %s", got.Status, got.Body)
	}
	w.Exec(t, `UPDATE upload_request SET expires_at = now() - interval '1 minute' WHERE id = '`+late.UploadID+`'`)
	grouped := func(r *runtimetest.Request) {
		form("a.png", "image/png", png)(r)
		r.Body = strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"group\"\r\n\r\nother\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n" + string(png) + "\r\n--x--\r\n")
		r.Header = http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}
	}
	for _, tt := range []struct {
		what   string
		answer func() answer
		status int
		says   string
	}{
		{"a file of another type", func() answer {
			return rt.do(t, http.MethodPost, of.UploadURL, form("a.png", "image/png", []byte("no picture")))
		}, http.StatusUnsupportedMediaType,
			"the file is text/plain, by its bytes; this address takes image/png, video/*"},
		{"a file of another type, by TUS", func() answer { return rt.part(t, rt.create(t, of, "10"), "0", "no picture") }, http.StatusUnsupportedMediaType, "this address takes image/png, video/*"},
		{"a body that is no form", func() answer {
			return rt.do(t, http.MethodPost, of.UploadURL, func(r *runtimetest.Request) {
				r.Body, r.Header = strings.NewReader(string(png)), http.Header{"Content-Type": {"image/png"}}
			})
		}, http.StatusUnsupportedMediaType, "multipart/form-data"},
		{"a file that is too large", func() answer {
			return rt.do(t, http.MethodPost, of.UploadURL, form("a.png", "image/png", append(slices.Clone(png), make([]byte, 1000)...)))
		}, http.StatusRequestEntityTooLarge, "the file is larger than this address takes, 1000 bytes"},
		{"another group", func() answer { return rt.do(t, http.MethodPost, of.UploadURL, grouped) }, http.StatusForbidden, "group is set by who asks for the file"},
		{"a second file", func() answer { return rt.do(t, http.MethodPost, taken.UploadURL, form("a.png", "image/png", png)) }, http.StatusForbidden, "this address takes one file, which was handed over already"},
		{"an upload after the time", func() answer { return rt.do(t, http.MethodPost, late.UploadURL, form("a.png", "image/png", png)) }, http.StatusForbidden, "this address has expired"},
		{"an upload after the revocation", func() answer {
			w.Exec(t, `UPDATE oauth_grant SET revoked_at = now()`)
			return rt.do(t, http.MethodPost, ended.UploadURL, form("a.png", "image/png", png))
		}, http.StatusForbidden, "the application that asked for the file has lost its access"},
	} {
		if got := tt.answer(); got.Status != tt.status || !strings.Contains(string(got.Body), tt.says) || strings.Contains(string(got.Body), "upload signature") {
			t.Errorf("%s: %d %s, want %d and %q", tt.what, got.Status, got.Body, tt.status, tt.says)
		}
	}
}
