// Package webuser has the user of a test who logs in to the service on behalf of an application: in a
// browser without JavaScript, with the code from the e-mail that the mail sink took.
package webuser

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/mail"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
)

// ServedBy is the header with the replica that answered, where a balancer of the test adds it.
const ServedBy = "X-Served-By"

// User has a browser, and reads the mail of one address.
type User struct {
	// Steps are the replicas that served each request, where ServedBy names them.
	Steps []string

	t       *testing.T
	address string
	mailLog string
	http    *http.Client
	read    int // emails that were read before
}

// New makes a user. mailLog is the log of the mail sink; transport is http.DefaultTransport if it is nil.
func New(t *testing.T, address, mailLog string, transport http.RoundTripper) *User {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	user := &User{t: t, address: address, mailLog: mailLog, http: &http.Client{
		Jar: jar, Timeout: wait.Timeout(t), Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	user.read = len(user.emails()) // earlier e-mails do not belong to this login
	return user
}

// LogIn logs in, from the authorization URL that an application opens to the page that the application
// answers with. application is the name that the consent must show.
func (p *User) LogIn(authorization, application string) {
	p.t.Helper()
	at := p.identify(authorization)
	service := at.url.Host
	if !strings.Contains(at.text, application) {
		p.t.Fatalf("the consent does not name %s: %s", application, at.text)
	}
	at = p.send(at, "/oauth/consent", url.Values{"decision": {"allow"}})
	if at.url.Host == service || at.status != http.StatusOK {
		p.t.Fatalf("the browser ends at %s (%d): %s", at.url.Path, at.status, at.text)
	}
}

// Decide opens the page on which an owner decides what an application may do, logs in if it asks for that, and answers with allow or deny.
// It returns what the page said before.
func (p *User) Decide(address, decision string) string {
	p.t.Helper()
	at := p.open(address)
	if strings.Contains(at.text, "/oauth/login/email") {
		at = p.send(at, "/oauth/login/email", url.Values{"email": {p.address}})
		at = p.send(at, "/oauth/login/code", url.Values{"code": {p.code(at)}})
	}
	if after := p.send(at, "/account/approval/decide", url.Values{"decision": {decision}}); after.status != http.StatusOK || len(after.forms) > 0 {
		p.t.Fatalf("after the decision the page is %d: %s", after.status, after.text)
	}
	return at.text
}

// HandOver uploads a file on the page of a request, as a browser without a script does.
func (p *User) HandOver(address, name string, content []byte) {
	p.t.Helper()
	at := p.open(address)
	target, _ := p.form(at, at.url.Path)
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	part, err := writer.CreateFormFile("file", name)
	must(p.t, err)
	_, err = part.Write(content)
	must(p.t, err)
	must(p.t, writer.Close())
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, target.String(), &body)
	must(p.t, err)
	r.Header.Set("Content-Type", writer.FormDataContentType())
	r.Header.Set("Origin", at.url.Scheme+"://"+at.url.Host)
	if after := p.show(r); after.status != http.StatusOK || len(after.forms) > 0 {
		p.t.Fatalf("after the upload the page is %d: %s", after.status, after.text)
	}
}

// AskForCode opens a page that asks who the user is, and asks for the e-mail with the code.
func (p *User) AskForCode(address string) { p.askForCode(address) }

func (p *User) askForCode(address string) page {
	p.t.Helper()
	at := p.send(p.open(address), "/oauth/login/email", url.Values{"email": {p.address}})
	p.form(at, "/oauth/login/code") // an e-mail is sent only before this page
	return at
}

// identify opens a page that asks who the user is, answers, and returns the page after it.
func (p *User) identify(address string) page {
	p.t.Helper()
	at := p.askForCode(address)
	return p.send(at, "/oauth/login/code", url.Values{"code": {p.code(at)}})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// page is what the browser shows.
type page struct {
	url    *url.URL
	status int
	text   string
	forms  []form
}

type form struct {
	action string
	fields url.Values
}

func (p *User) open(address string) page {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
	must(p.t, err)
	return p.show(r)
}

// form returns the form of a page that leads to a path, with the URL that it is sent to.
func (p *User) form(from page, path string) (*url.URL, form) {
	p.t.Helper()
	for _, form := range from.forms {
		target, err := from.url.Parse(form.action)
		must(p.t, err)
		if target.Path == path {
			return target, form
		}
	}
	p.t.Fatalf("%s (%d) has no form for %s: %s", from.url.Path, from.status, path, from.text)
	return nil, form{}
}

// send fills in the form that leads to a path and sends it. The page must have the fields that a user
// types into and the buttons that a user presses.
func (p *User) send(from page, path string, typed url.Values) page {
	p.t.Helper()
	target, form := p.form(from, path)
	for name, values := range typed {
		if !strings.Contains(from.text, `name="`+name+`"`) {
			p.t.Fatalf("the page with the form for %s has no %s: %s", path, name, from.text)
		}
		form.fields[name] = values
	}
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, target.String(), strings.NewReader(form.fields.Encode()))
	must(p.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", from.url.Scheme+"://"+from.url.Host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return p.show(r)
}

// show follows redirects to a page, be it of the service or of the application.
func (p *User) show(r *http.Request) page {
	p.t.Helper()
	for {
		response, err := p.http.Do(r)
		must(p.t, err)
		body, err := io.ReadAll(response.Body)
		must(p.t, err)
		_ = response.Body.Close()
		if served := response.Header.Get(ServedBy); served != "" {
			p.Steps = append(p.Steps, served)
		}
		to, err := response.Location()
		if errors.Is(err, http.ErrNoLocation) {
			return page{url: r.URL, status: response.StatusCode, text: string(body), forms: p.forms(string(body))}
		}
		must(p.t, err)
		r, err = http.NewRequestWithContext(p.t.Context(), http.MethodGet, to.String(), nil)
		must(p.t, err)
	}
}

// forms returns the forms of a page with the values that they would send.
func (p *User) forms(text string) (found []form) {
	html := xml.NewDecoder(strings.NewReader(text))
	html.Strict, html.AutoClose, html.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := html.Token()
		if err != nil {
			return found // its end, or no HTML
		}
		tag, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attributes := map[string]string{}
		for _, attribute := range tag.Attr {
			attributes[attribute.Name.Local] = attribute.Value
		}
		_, checked := attributes["checked"]
		switch {
		case tag.Name.Local == "form":
			found = append(found, form{action: attributes["action"], fields: url.Values{}})
		case tag.Name.Local == "input" && attributes["name"] != "" && len(found) > 0 && (attributes["type"] != "radio" || checked):
			found[len(found)-1].fields.Set(attributes["name"], attributes["value"])
		}
	}
}

// inMail is the code, on a line of its own.
var inMail = regexp.MustCompile(`(?m)^\s*(\d{8})\s*$`)

// code waits for the next e-mail and returns its code. from is the page that asks for it.
func (p *User) code(from page) string {
	p.t.Helper()
	var emails []string
	wait.UntilNone(p.t, func() string {
		if emails = p.emails(); len(emails) > p.read {
			return ""
		}
		return fmt.Sprintf("no e-mail came for %s; the page is %s", p.address, from.text)
	})
	p.read = len(emails)
	return inMail.FindStringSubmatch(emails[p.read-1])[1]
}

// emails returns the plain texts of the emails with a code that the mail server took for the user. Others tell an owner what waits.
func (p *User) emails() (texts []string) {
	p.t.Helper()
	printed, err := os.ReadFile(p.mailLog)
	must(p.t, err)
	for _, one := range strings.Split(string(printed), "----- mail from ")[1:] {
		head, message, _ := strings.Cut(one, "\n")
		message, _, whole := strings.Cut(message, "\n----- end of mail\n")
		if !whole || !strings.Contains(head, " to "+p.address+" at ") {
			continue
		}
		email, err := mail.ReadMessage(strings.NewReader(message))
		must(p.t, err)
		if text := plain(p.t, email); inMail.MatchString(text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// plain returns the text part of an e-mail, decoded.
func plain(t *testing.T, email *mail.Message) string {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(email.Header.Get("Content-Type"))
	must(t, err)
	if kind != "multipart/alternative" {
		t.Fatalf("the email is %s", kind)
	}
	for parts := multipart.NewReader(email.Body, parameters["boundary"]); ; {
		part, err := parts.NextPart() // which decodes quoted-printable
		must(t, err)
		if kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); kind == "text/plain" {
			text, err := io.ReadAll(part)
			must(t, err)
			return string(text)
		}
	}
}
