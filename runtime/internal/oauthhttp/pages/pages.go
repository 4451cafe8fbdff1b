// Package pages renders what a person sees while logging in and allowing an
// application, and where connected applications are ended. Package oauth decides which
// page is due and what is on it; names and addresses on a page come from strangers.
// The pages need no JavaScript and nothing from elsewhere.
package pages

import (
	"bytes"
	"embed"
	"html/template"
	"io"
	"time"
)

// Form is in every form, as the hidden fields request and csrf. Forms that are answered
// with a page have the request in their address, too: the page stays at it.
type Form struct {
	Request string
	CSRF    string
}

// Application is who asks to be connected. All of it was chosen by its maker.
type Application struct {
	Name string
	// Host is where the redirect goes. Not looked at when Loopback or Scheme says where.
	Host string
	// Website is the application's own page, on a host that the service knows; a link for
	// verified applications only.
	Website string
	// Verified means that the host, not only the name, is one that the service knows.
	Verified bool
	// Loopback means that the answer goes to a program on the person's computer.
	Loopback bool
	// Scheme is set when the answer goes to whichever program opens such links: cursor.
	Scheme string
}

// Account is one that the person may choose.
type Account struct {
	ID     string
	Name   string
	Detail string
}

// Scope is what an application may do: media:read or media:write.
type Scope string

// EmailPage asks for the address. It posts the field address to /oauth/login/email.
type EmailPage struct {
	Form
	// Application is nil when the person wants to see the connections.
	Application *Application
	Address     string // what was entered before
	Problem     string
	Notice      string // e.g. that the person is logged out
}

// CodePage asks for the code. It posts the field code to /oauth/login/code; its second
// form posts the address to /oauth/login/email again, for a new code. It must not say
// whether the address is known.
type CodePage struct {
	Form
	Application *Application
	Address     string
	Problem     string // with the code
	// ResendProblem is why there is no new code yet.
	ResendProblem string
	ResendIn      time.Duration // until a new code may be asked for; 0 = now
	Resent        bool          // a new code is on its way
	ValidFor      time.Duration // the lifetime of a code; 0 = not shown
}

// ConsentPage asks whether the application may be connected. It posts account and
// decision (allow or deny) to /oauth/consent.
type ConsentPage struct {
	Form
	Application Application
	Address     string
	Accounts    []Account
	// Chosen is the ID of the account that is chosen already. With several accounts and
	// none of them chosen the person has to choose.
	Chosen  string
	Scopes  []Scope
	Problem string
}

// Connection is an application that was allowed.
type Connection struct {
	ID       string
	Name     string
	Host     string
	Account  string
	Scopes   []Scope
	Verified bool
	Since    time.Time
	LastUsed time.Time // zero = never
}

// ConnectionsPage lists what is connected. Each connection posts the field connection
// to /account/connections/end, all of them the field all=1; logging out posts to
// /account/connections/logout.
type ConnectionsPage struct {
	Form
	Address     string
	Connections []Connection
	// Endpoint is what to give an assistant: {base_url}/mcp. Shown when nothing is
	// connected.
	Endpoint string
	Notice   string
	Problem  string
}

// ReturnPage follows the decision when the answer goes to a program on the device, which
// leaves the browser where it is. It opens the program by itself, as far as the browser
// allows, and by a link.
type ReturnPage struct {
	Application Application
	// Link is the answer: a URI of a scheme that the configuration names. It is not looked at.
	Link    string
	Allowed bool
}

// ProblemPage says what went wrong when there is no application to tell it to.
type ProblemPage struct {
	Title     string
	Text      string
	Hint      string
	RetryLink string // a path of the service; empty = no link
	// Back leads to where nobody vouches for; nil = nowhere.
	Back *WayBack
}

// WayBack is a link to an application that is not known, which the person may take.
type WayBack struct {
	Host string
	Link string // https
}

//go:embed files
var files embed.FS

// Pages renders the pages. It is safe for concurrent use.
type Pages struct {
	brand  brand
	assets assets

	email, code, consent, connections, back, problem *template.Template
}

// brand is what every page shows.
type brand struct {
	Name  string
	Logo  string // empty = none
	Icon  string
	Style string
}

// New reads the logo and prepares all pages: what is wrong shows here, not when a
// page is asked for.
func New(cfg Config) (*Pages, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	tone, err := parseColour(cfg.Colour)
	if err != nil {
		return nil, err
	}
	rules, err := files.ReadFile("files/style.css")
	if err != nil {
		return nil, err
	}
	light, dark := lightPalette(tone), darkPalette(tone)
	p := &Pages{brand: brand{Name: cfg.Name}, assets: assets{
		"style.css": newAsset("text/css; charset=utf-8", []byte(stylesheet(light, dark, string(rules)))),
		"mark.svg":  newAsset("image/svg+xml", []byte(mark(light, dark))),
	}}
	p.brand.Style, p.brand.Icon = p.assets.link("style.css"), p.assets.link("mark.svg")
	if cfg.Logo != "" {
		name, logo, err := readLogo(cfg.Logo)
		if err != nil {
			return nil, err
		}
		p.assets[name] = logo
		p.brand.Logo = p.assets.link(name)
	}
	for file, page := range map[string]**template.Template{
		"email": &p.email, "code": &p.code, "consent": &p.consent, "connections": &p.connections, "return": &p.back, "problem": &p.problem,
	} {
		*page, err = template.New("layout.html").Funcs(template.FuncMap{"plain": plain, "host": host, "span": span}).
			ParseFS(files, "files/layout.html", "files/"+file+".html")
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// view is what the layout gets.
type view struct {
	brand
	Title  string // of the step
	Failed bool   // the title says so first
	Wide   bool
	Page   any
}

// render writes a whole page or nothing of it.
func (p *Pages) render(w io.Writer, page *template.Template, v view) error {
	v.brand = p.brand
	var html bytes.Buffer
	if err := page.Execute(&html, v); err != nil {
		return err
	}
	_, err := html.WriteTo(w)
	return err
}

// Email writes the page that asks for the address.
func (p *Pages) Email(w io.Writer, page EmailPage) error {
	return p.render(w, p.email, view{Title: "Log in", Failed: page.Problem != "", Page: page})
}

// Code writes the page that asks for the code.
func (p *Pages) Code(w io.Writer, page CodePage) error {
	return p.render(w, p.code, view{Title: "Enter your code", Failed: page.Problem != "" || page.ResendProblem != "", Page: page})
}

// Consent writes the page that asks whether to connect the application.
func (p *Pages) Consent(w io.Writer, page ConsentPage) error {
	return p.render(w, p.consent, view{Title: "Allow a connection", Failed: page.Problem != "", Page: page})
}

// Connections writes the list of connected applications.
func (p *Pages) Connections(w io.Writer, page ConnectionsPage) error {
	return p.render(w, p.connections, view{Title: "Connected applications", Failed: page.Problem != "", Wide: true, Page: page})
}

// Return writes the page that leads back to a program on the device.
func (p *Pages) Return(w io.Writer, page ReturnPage) error {
	return p.render(w, p.back, view{Title: "You can close this tab", Page: page})
}

// Problem writes the page that says what went wrong.
func (p *Pages) Problem(w io.Writer, page ProblemPage) error {
	return p.render(w, p.problem, view{Title: page.Title, Page: page})
}
