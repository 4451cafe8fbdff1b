package pages_test

import (
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

func TestPages_AreAccessible(t *testing.T) {
	t.Parallel()
	for name, page := range everyPage(newPages(t), "Ana’s helper") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := read(t, page)
			if !strings.HasPrefix(d.source, "<!doctype html>\n") {
				t.Error("no doctype first")
			}
			for element, count := range map[string]int{"html": 1, "title": 1, "h1": 1, "main": 1, "header": 1} {
				if got := len(d.all(element)); got != count {
					t.Errorf("%d of %s", got, element)
				}
			}
			if d.all("html")[0].get("lang") != "en" {
				t.Error("no language")
			}
			if title := d.all("title")[0].text(); !strings.HasSuffix(title, " · Media <storage>") {
				t.Errorf("the title is %q", title)
			}
			ids := map[string]document{}
			for _, e := range d.all() {
				if id := e.get("id"); id != "" {
					if _, double := ids[id]; double {
						t.Errorf("two elements have the id %q", id)
					}
					ids[id] = e
				}
			}
			labels := map[string]string{}
			for _, label := range d.all("label") {
				labels[label.get("for")] = label.text()
			}
			for _, e := range d.all() {
				for _, reference := range []string{"aria-describedby", "aria-labelledby"} {
					for id := range strings.FieldsSeq(e.get(reference)) {
						if _, ok := ids[id]; !ok {
							t.Errorf("%s of %s names %q, which is not there", reference, e.Data, id)
						}
					}
				}
				for _, a := range e.Attr {
					if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
						t.Errorf("%s has %s, which the content security policy forbids", e.Data, a.Key)
					}
				}
			}
			for _, e := range d.all("script") {
				if !strings.HasPrefix(e.get("src"), pages.AssetsPath) || !e.has("defer") || e.text() != "" || len(e.Attr) != 2 {
					t.Errorf("there is a script that is not one of the service: %v %s", e.Attr, e.text())
				}
			}
			for _, e := range d.all("style", "iframe", "object", "embed", "base") {
				t.Errorf("there is a %s", e.Data)
			}
			for _, input := range d.all("input", "select", "textarea") {
				if input.get("type") != "hidden" && labels[input.get("id")] == "" && input.get("aria-label") == "" {
					t.Errorf("the field %q has no label", input.get("name"))
				}
				if input.get("aria-invalid") == "true" && !strings.Contains(input.get("aria-describedby"), "error") {
					t.Errorf("the field %q is wrong and does not say why", input.get("name"))
				}
			}
			for _, button := range d.all("button") {
				if byScript := button.has("hidden") && button.get("type") == "button"; button.text() == "" || button.get("type") != "submit" && !byScript {
					t.Errorf("a button is %q and of type %q", button.text(), button.get("type"))
				}
			}
			for _, form := range d.all("form") {
				fields := form.fields()
				if form.get("method") == "get" { // a search, whose URL must not have the token
					if form.get("action") != "/account/files" && form.get("action") != "/account/activity" || fields["request"] != "the-request" || fields["csrf"] != "" {
						t.Errorf("the form %s has the fields %v", form.get("action"), fields)
					}
					continue
				}
				if strings.HasPrefix(form.get("action"), "/upload/") { // the address is the permission; there is no session
					if form.get("method") != "post" || len(fields) > 1 || len(form.all("button")) != 1 {
						t.Errorf("the form %s %s has the fields %v", form.get("method"), form.get("action"), fields)
					}
					continue
				}
				if action, err := url.Parse(form.get("action")); err == nil && form.get("enctype") == "multipart/form-data" { // checked before the body is read
					fields["request"], fields["csrf"] = action.Query().Get("request"), action.Query().Get("csrf")
				}
				if form.get("method") != "post" || !strings.HasPrefix(form.get("action"), "/") || fields["request"] != "the-request" || fields["csrf"] != "the-csrf" || len(form.all("button")) == 0 && !strings.Contains(d.source, ` form="`+form.get("id")+`"`) {
					t.Errorf("the form %s %s has the fields %v", form.get("method"), form.get("action"), fields)
				}
			}
			for _, link := range d.all("a", "link", "img") {
				target := link.get("href") + link.get("src")
				if id, within := strings.CutPrefix(target, "#"); within && id != "" && strings.Contains(d.source, ` id="`+id+`"`) {
					continue
				}
				if !strings.HasPrefix(target, "/") && target != claude.Website && target != toApp && target != toUnverifiedApp {
					t.Errorf("%s goes to %s", link.Data, target)
				}
				if link.get("target") != "" && (!strings.Contains(link.get("rel"), "noopener") || !strings.Contains(link.text(), "new tab")) {
					t.Errorf("the link to %s opens a tab behind one's back", target)
				}
			}
			for _, svg := range d.all("svg") {
				if svg.get("aria-hidden") != "true" {
					t.Error("a drawing is read aloud")
				}
			}
		})
	}
}

func TestPages_EscapeUntrustedText(t *testing.T) {
	t.Parallel()
	for what, words := range map[string]string{
		"markup":               `</title></main><script>alert(1)</script><img src=x onerror=alert(1)>`,
		"attributes":           `" onfocus="alert(1)" autofocus zz="`,
		"a link":               `javascript:alert(1)`,
		"templates":            `{{.CSRF}}`,
		"turned text":          "\u202egro.ten\u202c \u2066evil\u2069 \u200f\u061c",
		"invisible characters": "pay\u200bpal\u00ad\ufeff\u2060\U000e0041\x00\x07\x1b[31m",
		"lines":                "Claude\r\n\u2028\u2029\vVerified",
		"broken UTF-8":         "Cl\xffaude\xc3",
		"marks":                "Z" + strings.Repeat("\u0336\u0489", 500),
		"ten thousand letters": strings.Repeat("W", 10_000),
		"ten thousand words":   strings.Repeat("a ", 10_000),
	} {
		for name, page := range everyPage(newPages(t), words) {
			d := read(t, page)
			for _, e := range d.all() {
				for _, a := range e.Attr {
					if strings.HasPrefix(a.Key, "on") || a.Key == "zz" || strings.HasPrefix(strings.ToLower(strings.TrimSpace(a.Val)), "javascript:") && (a.Key == "href" || a.Key == "src" || a.Key == "action") {
						t.Errorf("%s, %s: %s has %s=%q", what, name, e.Data, a.Key, a.Val)
					}
				}
				if e.Data == "script" && !strings.HasPrefix(e.get("src"), pages.AssetsPath) || e.Data == "img" && e.get("src") != thumbnail {
					t.Errorf("%s, %s: there is a %s", what, name, e.Data)
				}
			}
			if len(d.all("main")) != 1 || len(d.all("title")) != 1 {
				t.Errorf("%s, %s: the page is broken", what, name)
			}
			// Names, hosts and addresses are shown within bdi.
			for _, shown := range d.all("bdi") {
				text := shown.text()
				if strings.ContainsFunc(text, func(r rune) bool {
					return unicode.Is(unicode.C, r) || r == utf8.RuneError || r == '\u2028' || r == '\u2029'
				}) {
					t.Errorf("%s, %s: %q is shown", what, name, text)
				}
				if strings.Count(text, "\u0336")+strings.Count(text, "\u0489") > 3 {
					t.Errorf("%s, %s: a pile of marks is shown", what, name)
				}
			}
			for _, heading := range d.all("h1", "h2", "title", "label") {
				if length := utf8.RuneCountInString(heading.text()); length > 130 {
					t.Errorf("%s, %s: %s has %d characters", what, name, heading.Data, length)
				}
			}
		}
	}
}

func TestConsent_TruncatesNamesButNotHosts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("accounts.google.com.", 10) + "evil.example"
	d := read(t, func(w io.Writer) error {
		return newPages(t).Consent(w, pages.ConsentPage{Form: form, Application: pages.Application{Name: strings.Repeat("x", 81), Host: long}, Accounts: []pages.Account{account}})
	})
	if strings.Count(d.text(), long) != 2 { // in the warning and among the facts
		t.Errorf("the end of the host is not shown: %s", d.text())
	}
	if title := d.all("h1")[0].text(); title != "Allow "+strings.Repeat("x", 80)+"… to use your files?" {
		t.Errorf("the heading is %q", title)
	}
}

func TestEmail_ShowsFormAndError(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	d := read(t, func(w io.Writer) error { return p.Email(w, pages.EmailPage{Form: form, Application: &claude}) })
	field := d.form(t, "/oauth/login/email").all("input")[2]
	for name, want := range map[string]string{"name": "email", "type": "email", "autocomplete": "email", "value": "", "aria-invalid": "", "aria-describedby": "hint"} {
		if got := field.get(name); got != want {
			t.Errorf("%s of the field is %q, want %q", name, got, want)
		}
	}
	if !field.has("required") || !strings.Contains(d.text(), "Claude wants to access your files. Afterwards it sends you to claude.ai.") {
		t.Errorf("the page says %s", d.text())
	}

	d = read(t, func(w io.Writer) error {
		return p.Email(w, pages.EmailPage{Form: form, Email: `"ana@`, Error: "This is no address."})
	})
	field = d.form(t, "/oauth/login/email").all("input")[2]
	if field.get("value") != `"ana@` || field.get("aria-invalid") != "true" || field.get("aria-describedby") != "error hint" {
		t.Errorf("the field after an error: %v", field.Attr)
	}
	if alert := alerts(d); !slices.Equal(alert, []string{"This is no address."}) || !strings.HasPrefix(d.all("title")[0].text(), "Error: Log in") {
		t.Errorf("the error is said as %q", alert)
	}
	if strings.Contains(d.text(), "wants to access") {
		t.Error("the page names an application though none is set")
	}
}

// alerts returns what a screen reader says first.
func alerts(d document) []string {
	var found []string
	for _, e := range d.all() {
		if e.get("role") == "alert" {
			found = append(found, e.text())
		}
	}
	return found
}

func TestCode_ShowsFormAndResend(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	d := read(t, func(w io.Writer) error {
		return p.Code(w, pages.CodePage{Form: pages.Form{Request: "a&b", CSRF: "c"}, Application: &claude, Email: "ana@example.org", ValidFor: 10 * time.Minute, ResendIn: 30 * time.Second})
	})
	field := d.form(t, "/oauth/login/code").all("input")[2]
	for name, want := range map[string]string{"name": "code", "autocomplete": "one-time-code", "inputmode": "numeric", "type": "text"} {
		if got := field.get(name); got != want {
			t.Errorf("%s of the field is %q, want %q", name, got, want)
		}
	}
	if fields := d.form(t, "/oauth/login/email").fields(); fields["email"] != "ana@example.org" || fields["request"] != "a&b" {
		t.Errorf("a new code is asked for with %v", fields)
	}
	if link := d.all("a")[0].get("href"); link != "/oauth/login?request=a%26b&change=1" {
		t.Errorf("the way back is %s", link)
	}
	for _, want := range []string{"We sent a code to ana@example.org if it belongs to an account. It works for 10 minutes.", "spam", "You can ask for a new code in 30 seconds."} {
		if !strings.Contains(d.text(), want) {
			t.Errorf("the page does not say %q: %s", want, d.text())
		}
	}

	d = read(t, func(w io.Writer) error {
		return p.Code(w, pages.CodePage{Form: form, Email: "ana@example.org", Resent: true, ResendError: "Wait for 12 seconds."})
	})
	if field := d.form(t, "/oauth/login/code").all("input")[2]; field.get("aria-invalid") != "" {
		t.Error("the code is wrong because another was asked for too early")
	}
	if got := alerts(d); !slices.Equal(got, []string{"Wait for 12 seconds."}) || !strings.Contains(d.text(), "You asked for a new code.") {
		t.Errorf("the alerts are %q of %s", got, d.text())
	}
}

func TestConsent_ShowsApplicationAndScopes(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	show := func(page pages.ConsentPage) document {
		page.Form, page.Email = form, "ana@example.org"
		return read(t, func(w io.Writer) error { return p.Consent(w, page) })
	}
	d := show(pages.ConsentPage{Application: claude, Accounts: []pages.Account{account}, Scopes: both})
	consent := d.form(t, "/oauth/consent")
	if fields := consent.fields(); fields["account"] != "account-1" || len(consent.all("label")) != 0 {
		t.Errorf("with one account the fields are %v", fields)
	}
	var decisions []string
	for _, button := range consent.all("button") {
		if button.get("form") == "change" { // another form of the page
			continue
		}
		decisions = append(decisions, button.get("name")+"="+button.get("value")+" "+button.text())
	}
	if !slices.Equal(decisions, []string{"decision=allow Allow", "decision=deny Deny"}) {
		t.Errorf("the decisions are %q", decisions)
	}
	for _, want := range []string{"Allow Claude to use your files?", "ana@example.org", "Studio Lopez", "team-a / studio", "Sends you to claude.ai", "See your files", "Add and change your files, and make files public", "on the page Authorized applications"} {
		if !strings.Contains(d.text(), want) {
			t.Errorf("the page does not say %q: %s", want, d.text())
		}
	}
	if strings.Contains(d.text(), "nverified") || !strings.Contains(d.source, `href="https://claude.ai/about"`) {
		t.Error("a verified application is warned of, or its website is not linked")
	}

	d = show(pages.ConsentPage{Application: claude, Accounts: []pages.Account{account, other}, Scopes: both[:1]})
	choices := d.all("fieldset")[0].all("input")
	if len(choices) != 2 || choices[0].get("type") != "radio" || choices[1].get("value") != "account-2" || choices[0].has("checked") || !choices[0].has("required") || d.all("legend")[0].text() == "" {
		t.Errorf("the choice is %v", choices)
	}
	for _, button := range d.all("button") {
		if allow := button.get("value") == "allow"; button.has("formnovalidate") == allow {
			t.Errorf("%s, without the choice of an account", button.text())
		}
	}
	if strings.Contains(d.text(), "Add and change") {
		t.Error("a permission is shown that was not asked for")
	}

	for want, application := range map[string]pages.Application{
		"sends you to evil.example.":                                           {Name: "Claude", Host: "evil.example", Website: "https://claude.ai"},
		"sends you to an application on this computer.":                        {Name: "Claude", Loopback: true, Host: "127.0.0.1:3456"},
		"sends you to the application on this device that opens cursor: links": {Name: "Claude", Scheme: "cursor"},
	} {
		d := show(pages.ConsentPage{Application: application, Accounts: []pages.Account{account}})
		for _, want := range []string{"Unverified application. Anyone can choose this name. It " + want, "Continue only if you started this yourself."} {
			if !strings.Contains(d.text(), want) {
				t.Errorf("the page does not say %q: %s", want, d.text())
			}
		}
		if strings.Contains(d.source, "https://claude.ai") {
			t.Error("the website of an unverified application is linked")
		}
	}
	if d := show(pages.ConsentPage{Application: pages.Application{Name: "\u200b", Host: "a.example"}}); !strings.Contains(d.text(), "An application without a name") {
		t.Errorf("an invisible name is shown as %s", d.all("h1")[0].text())
	}
	for _, website := range []string{"javascript:alert(1)", "http://claude.ai", "https://", "https://claude.ai@evil.example/", "data:text/html,x", "//claude.ai", "::"} {
		if page := (pages.Application{Verified: true, Website: website}).WebsiteURL(); page != "" {
			t.Errorf("%s is linked as %s", website, page)
		}
	}
}

func TestHasVisible_RejectsBlankText(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"": false, " ": false, "\u200b\u2060": false, "\u3164": false, "\u2800\u2800": false, "\u115f\u1160": false, "\uffa0 \u3164": false,
		"\u034f\ufe0f": false, "\u0301": false, "\U0001d159": false, "\ufffd": false, "\U000e0041": false,
		"a\u3164": true, "クロード": true, "كلود": true, "के": true, "❤\ufe0f": true, "7": true, "…": true,
	} {
		if got := pages.HasVisible(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
		if title := (pages.Application{Name: name}).Title(); (title == "An application without a name") == want {
			t.Errorf("%q is shown as %q", name, title)
		}
	}
}

func TestAuthorizedApps_ListsGrants(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	d := read(t, func(w io.Writer) error {
		return p.AuthorizedApps(w, pages.AuthorizedAppsPage{Form: form, Email: "ana@example.org", Endpoint: "https://media.example.org/mcp", Apps: []pages.AuthorizedApp{
			{ID: "c1", Name: "Claude", Host: "claude.ai", Account: "Studio", Scopes: both, Verified: true, Since: moment, LastUsed: moment.Add(time.Hour)},
			{ID: "c2", Name: "Claude", Host: "evil.example", Account: "Archive", Scopes: both[:1], Since: moment},
		}})
	})
	revocable := map[string]string{}
	for _, form := range d.all("form") {
		if form.get("action") == "/account/connections/revoke" {
			fields := form.fields()
			revocable[fields["grant"]] = fields["all"]
		}
	}
	if len(revocable) != 3 || revocable[""] != "1" {
		t.Errorf("grants that can be revoked: %v", revocable)
	}
	d.form(t, "/account/connections/logout")
	items := d.all("li")
	for i, wants := range [][]string{
		{"Claude", "claude.ai", "Studio", "see files, add and change files, make files public", "Since 21 Nov 2026, 14:05 UTC", "Last used 21 Nov 2026, 15:05 UTC"},
		{"Claude unverified", "evil.example", "Archive", "see files", "never"},
	} {
		for _, want := range wants {
			if !strings.Contains(items[i].text(), want) {
				t.Errorf("application %d does not say %q: %s", i, want, items[i].text())
			}
		}
	}
	if strings.Contains(d.text(), "/mcp") || strings.Contains(items[1].text(), "change files") {
		t.Errorf("too much is said: %s", d.text())
	}

	d = read(t, func(w io.Writer) error {
		return p.AuthorizedApps(w, pages.AuthorizedAppsPage{Form: form, Email: "ana@example.org", Endpoint: "https://media.example.org/mcp"})
	})
	if !strings.Contains(d.text(), "No authorized applications yet") || !strings.Contains(d.text(), "https://media.example.org/mcp") || len(d.all("form")) != 1 {
		t.Errorf("the empty page says %s", d.text())
	}
}

func TestAppRedirect_OpensTheApplication(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	for allowed, want := range map[bool]string{true: "You allowed Cursor to use your files", false: "Cursor was not allowed to use your files"} {
		d := read(t, func(w io.Writer) error {
			return p.AppRedirect(w, pages.AppRedirectPage{Application: pages.Application{Name: "Cursor", Scheme: "cursor"}, Link: toApp, Allowed: allowed})
		})
		var refresh []string
		for _, meta := range d.all("meta") {
			if meta.get("http-equiv") == "refresh" {
				refresh = append(refresh, meta.get("content"))
			}
		}
		if !slices.Equal(refresh, []string{"0;url=" + toApp}) || d.all("a")[0].get("href") != toApp || d.all("a")[0].text() != "Open Cursor again" {
			t.Errorf("it leads to %q and %v", refresh, d.all("a")[0].Attr)
		}
		if !strings.Contains(d.text(), want) || !strings.Contains(d.text(), "You can close this tab") {
			t.Errorf("the page says %s", d.text())
		}
	}
	d := read(t, func(w io.Writer) error { return p.Error(w, pages.ErrorPage{Title: "Expired"}) })
	for _, meta := range d.all("meta") {
		if meta.get("http-equiv") != "" {
			t.Errorf("another page leads to %s", meta.get("content"))
		}
	}
}

func TestError_ShowsTextAndBackLink(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	d := read(t, func(w io.Writer) error {
		return p.Error(w, pages.ErrorPage{Title: "Expired", Text: "Too late.", Hint: "Start again."})
	})
	if d.text() == "" || d.all("h1")[0].text() != "Expired" || !strings.Contains(d.text(), "Too late. Start again.") {
		t.Errorf("the page says %s", d.text())
	}
	d = read(t, func(w io.Writer) error {
		return p.Error(w, pages.ErrorPage{Title: "No", Text: "It can't.", Back: &pages.BackLink{Host: "evil.example", Link: toUnverifiedApp}})
	})
	if links := d.all("a"); len(links) != 1 || links[0].get("href") != toUnverifiedApp || links[0].text() != "Go back to evil.example" || !strings.Contains(links[0].get("rel"), "noreferrer") || strings.Contains(d.source, "http-equiv=\"refresh") {
		t.Errorf("the way back is %s", d.source)
	}
	if d := read(t, func(w io.Writer) error { return p.Error(w, pages.ErrorPage{Title: "Expired", Text: "Too late."}) }); len(d.all("a")) != 0 {
		t.Error("there is a link to nowhere")
	}
}

var errFull = errors.New("no room")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestPages_ReturnWriteErrors(t *testing.T) {
	t.Parallel()
	for name, page := range everyPage(newPages(t), "x") {
		if err := page(full{}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPages_EscapeIDsInURLs(t *testing.T) {
	t.Parallel()
	d := read(t, func(w io.Writer) error {
		return newPages(t).Code(w, pages.CodePage{Form: pages.Form{Request: "x&change=0#\"><b>"}})
	})
	link, err := url.Parse(d.all("a")[0].get("href"))
	if err != nil || link.Query().Get("request") != "x&change=0#\"><b>" || link.Query().Get("change") != "1" {
		t.Errorf("the way back is %v, %v", link, err)
	}
}
