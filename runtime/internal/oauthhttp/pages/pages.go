// Package pages renders the HTML pages of the login, the consent, the list of authorized
// applications, the files and the activity of an account. Packages oauthhttp and webfiles decide which page to show. Names,
// hosts, e-mail addresses and what is said about files are untrusted input. The pages work without
// JavaScript; scripts of the service make those of an account quicker to use. They load nothing but files from other origins.
package pages

import (
	"bytes"
	"embed"
	"html/template"
	"io"
	"strings"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
)

// Form holds the hidden fields of every form: request (the ID of the login session) and
// csrf. Forms that may be answered with a page carry the ID in their URL as well, so that
// a reload shows the same page.
type Form struct {
	Request string
	CSRF    string
}

// Application is the client that requests access. Its developer chose all of these values.
type Application struct {
	Name string
	// Host is the host of the redirect URI. It is ignored if Loopback or Scheme is set.
	Host string
	// Website is the application's home page. It is linked only if Verified is set.
	Website string
	// Verified means that the configuration trusts the host of the redirect URI.
	Verified bool
	// Loopback means that the redirect URI leads to a program on the user's computer.
	Loopback bool
	// Scheme is the custom scheme of the redirect URI, such as cursor; else it is empty.
	Scheme string
}

// Account is an account that the user can choose.
type Account struct {
	ID     string
	Name   string
	Detail string
	// App is the name of the app whose files are shown, for the URLs; empty = the Default App.
	App string
	// UndoWindow is how long a delete by a login can be undone; 0 = not at all.
	UndoWindow time.Duration
	// Policy is the tool policy of the account.
	Policy account.ToolPolicy
	// FixedCode means that the account has a fixed login code.
	FixedCode bool
}

// Scope is an OAuth scope, such as media:read.
type Scope string

// EmailPage asks for the e-mail address. It posts the field email to /oauth/login/email.
type EmailPage struct {
	Form
	// Application is nil if the user logs in to see a page of the account: the files if Files is set,
	// else the authorized applications.
	Application *Application
	Files       bool
	Email       string // what the user entered before
	Error       string
	Notice      string // such as "You are logged out."
	// CodeSent means that no code was sent now because one was sent SentAgo, in another login.
	CodeSent bool
	SentAgo  time.Duration
}

// CodePage asks for the login code. It posts the field code to /oauth/login/code; its second
// form posts the e-mail address to /oauth/login/email again and requests a new code. The
// page must not reveal whether the address belongs to an account.
type CodePage struct {
	Form
	Application *Application
	Email       string
	Error       string // about the code
	// ResendError says why no new code was sent.
	ResendError string
	ResendIn    time.Duration // until a new code can be requested; 0 = now
	Resent      bool          // a new code was sent
	Continued   bool          // the user began another login, and continues this one
	SentAgo     time.Duration // since the code was sent
	ValidFor    time.Duration // the lifetime of a code; 0 = not shown
	FixedCodes  bool          // some account has a fixed code, whichever address this is
}

// ConsentPage asks whether the application may access an account. It posts account and
// decision (allow or deny) to /oauth/consent. With several accounts the user has to choose.
type ConsentPage struct {
	Form
	Application Application
	Email       string
	Accounts    []Account
	Scopes      []Scope
	Error       string
}

// AuthorizedApp is an application that has access to an account.
type AuthorizedApp struct {
	ID       string
	Name     string
	Host     string
	Account  string
	Scopes   []Scope
	Verified bool
	Since    time.Time
	LastUsed time.Time // zero = never
	// Policy is the tool policy of the account.
	Policy account.ToolPolicy
	// Requests are those that the application has sent with this access.
	Requests int64
	// Facts follow those that every application has, such as ceilings.
	Facts []Fact
}

// AuthorizedAppsPage lists the authorized applications. To revoke access it posts the field
// grant or, for all applications, all=1 to /account/connections/revoke; to log out it posts
// to /account/connections/logout.
type AuthorizedAppsPage struct {
	Form
	Email string
	Apps  []AuthorizedApp
	// Endpoint is the URL for MCP clients: {base_url}/mcp. It is shown if the list is empty.
	Endpoint string
	// FilesURL is the URL of the files page; empty = there is none.
	FilesURL string
	Notice   string
	Error    string
}

// AppRedirectPage redirects to a native application by its custom scheme. The browser stays
// at this page, which opens the application by a refresh and by a link.
type AppRedirectPage struct {
	Application Application
	// Link is the redirect URI with the authorization response. Its scheme must be one that
	// the configuration allows; the page does not check it.
	Link    string
	Allowed bool
}

// ErrorPage shows an error that is not sent to the application.
type ErrorPage struct {
	Title string
	Text  string
	Hint  string
	// Links lead to pages of the service.
	Links []PageLink
	// Back links to an unverified application; nil = no link.
	Back *BackLink
	// Typed is what the user typed in the form that the page answers.
	Typed []Typed
}

// Typed is the text of a field.
type Typed struct{ Name, Text string }

// PageLink is a link to a page of the service.
type PageLink struct{ Text, URL string }

// BackLink is a link to an unverified application, which the user can follow.
type BackLink struct {
	Host string
	Link string // https
}

//go:embed files
var files embed.FS

// Pages renders the pages. It is safe for concurrent use.
type Pages struct {
	brand  brand
	assets assets

	emailPage, codePage, consentPage, authorizedAppsPage, appRedirectPage, errorPage, filesPage, viewFilePage, deleteFilePage, chooseAccountPage, activityPage, approvalPage, uploadRequestPage *template.Template
}

// brand holds the parts of the layout that depend on the configuration.
type brand struct {
	Name  string
	Logo  string // empty = none
	Icon  string
	Style string
	// Scripts are the URLs of the scripts, by name.
	Scripts map[string]string
	// Links are at the end of each page, to pages of other sites.
	Links []PageLink
}

// The scripts of the pages, which are embedded. Each works alone, and a page without them works, too.
const (
	timesScript  = "times.js"  // local times
	filesScript  = "files.js"  // the library page and the page of a file
	uploadScript = "upload.js" // uploads on the library page
)

// New reads the logo and parses all templates, so that errors show at startup.
func New(cfg Config) (*Pages, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	brandColor, err := parseColor(cfg.Color)
	if err != nil {
		return nil, err
	}
	rules, err := files.ReadFile("files/style.css")
	if err != nil {
		return nil, err
	}
	light, dark := lightPalette(brandColor), darkPalette(brandColor)
	p := &Pages{brand: brand{Name: cfg.Name}, assets: assets{
		"style.css": newAsset("text/css; charset=utf-8", []byte(stylesheet(light, dark, string(rules)))),
		"mark.svg":  newAsset("image/svg+xml", []byte(markSVG(light, dark))),
	}}
	p.brand.Scripts = map[string]string{}
	for _, name := range []string{timesScript, filesScript, uploadScript} {
		script, err := files.ReadFile("files/" + name)
		if err != nil {
			return nil, err
		}
		p.assets[name] = newAsset("text/javascript; charset=utf-8", script)
		p.brand.Scripts[name] = p.assets.link(name)
	}
	p.brand.Style, p.brand.Icon = p.assets.link("style.css"), p.assets.link("mark.svg")
	for _, link := range []PageLink{{Text: "Support", URL: cfg.Support}, {Text: "Privacy", URL: cfg.Privacy}, {Text: "Terms", URL: cfg.Terms}} {
		if link.URL != "" {
			p.brand.Links = append(p.brand.Links, link)
		}
	}
	if cfg.Logo != "" {
		name, logo, err := readLogo(cfg.Logo)
		if err != nil {
			return nil, err
		}
		p.assets[name] = logo
		p.brand.Logo = p.assets.link(name)
	}
	for file, page := range map[string]**template.Template{
		"email": &p.emailPage, "code": &p.codePage, "consent": &p.consentPage,
		"authorized_apps": &p.authorizedAppsPage, "app_redirect": &p.appRedirectPage, "error": &p.errorPage,
		"files": &p.filesPage, "view_file": &p.viewFilePage, "delete_file": &p.deleteFilePage, "choose_account": &p.chooseAccountPage, "activity": &p.activityPage, "approval": &p.approvalPage, "upload_request": &p.uploadRequestPage,
	} {
		*page, err = template.New("layout.html").Funcs(template.FuncMap{"sanitize": sanitize, "sanitizeText": sanitizeText, "sanitizeHost": sanitizeHost, "humanDuration": humanDuration, "humanBytes": media.HumanBytes, "moment": momentOf, "second": secondOf}).
			ParseFS(files, "files/layout.html", "files/running_uploads.html", "files/"+file+".html")
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Picture returns the path of the picture of the brand, the logo or the mark, and its media type. A path that has a
// hash of the picture does not change while it stays.
func (p *Pages) Picture() (path, mediaType string) {
	name := "mark.svg"
	if p.brand.Logo != "" {
		name, _, _ = strings.Cut(strings.TrimPrefix(p.brand.Logo, AssetsPath), "?")
	}
	return p.assets.link(name), p.assets[name].contentType
}

// view is the data of the layout template.
type view struct {
	brand
	Title    string
	HasError bool // prefixes the title
	Wide     bool
	Full     bool // wider than Wide
	Library  bool // as wide as the screen, without a frame
	// Use are the names of the scripts of the page.
	Use  []string
	Page any
}

// render writes the complete page, or nothing if it cannot be rendered.
func (p *Pages) render(w io.Writer, page *template.Template, v view) error {
	v.brand = p.brand
	var html bytes.Buffer
	if err := page.Execute(&html, v); err != nil {
		return err
	}
	_, err := html.WriteTo(w)
	return err
}

// Email writes the page that asks for the e-mail address.
func (p *Pages) Email(w io.Writer, page EmailPage) error {
	return p.render(w, p.emailPage, view{Title: "Log in", HasError: page.Error != "", Page: page})
}

// Code writes the page that asks for the login code.
func (p *Pages) Code(w io.Writer, page CodePage) error {
	return p.render(w, p.codePage, view{Title: "Enter your code", HasError: page.Error != "" || page.ResendError != "", Page: page})
}

// Consent writes the page that asks the user to authorize the application.
func (p *Pages) Consent(w io.Writer, page ConsentPage) error {
	return p.render(w, p.consentPage, view{Title: "Authorize application", HasError: page.Error != "", Page: page})
}

// AuthorizedApps writes the list of authorized applications.
func (p *Pages) AuthorizedApps(w io.Writer, page AuthorizedAppsPage) error {
	return p.render(w, p.authorizedAppsPage, view{Title: "Authorized applications", HasError: page.Error != "", Wide: true, Use: []string{timesScript}, Page: page})
}

// AppRedirect writes the page that redirects to a native application.
func (p *Pages) AppRedirect(w io.Writer, page AppRedirectPage) error {
	return p.render(w, p.appRedirectPage, view{Title: "You can close this tab", Page: page})
}

// Error writes an error page.
func (p *Pages) Error(w io.Writer, page ErrorPage) error {
	return p.render(w, p.errorPage, view{Title: page.Title, Page: page})
}
