// Package pages renders what a person sees while logging in and allowing an
// application, and where connected applications are ended. Package oauth decides which
// page is due and what is on it; names and addresses on a page come from strangers.
// The pages need no JavaScript and nothing from elsewhere.
package pages

import (
	"io"
	"net/http"
	"time"
)

// Form is in every form, as the hidden fields request and csrf.
type Form struct {
	Request string
	CSRF    string
}

// Application is who asks to be connected. All of it was chosen by its maker.
type Application struct {
	Name string
	// Host is where the redirect goes. Not looked at when Loopback or Scheme says where.
	Host string
	// Website is the application's own page; a link for verified applications only.
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

// ProblemPage says what went wrong when there is no application to tell it to.
type ProblemPage struct {
	Title     string
	Text      string
	Hint      string
	RetryLink string // a path of the service; empty = no link
}

// Pages renders the pages. It is safe for concurrent use.
type Pages struct{}

// New reads the logo and prepares all pages: what is wrong shows here, not when a
// page is asked for.
func New(cfg Config) (*Pages, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Pages{}, nil
}

// Email writes the page that asks for the address.
func (p *Pages) Email(w io.Writer, page EmailPage) error { return nil }

// Code writes the page that asks for the code.
func (p *Pages) Code(w io.Writer, page CodePage) error { return nil }

// Consent writes the page that asks whether to connect the application.
func (p *Pages) Consent(w io.Writer, page ConsentPage) error { return nil }

// Connections writes the list of connected applications.
func (p *Pages) Connections(w io.Writer, page ConnectionsPage) error { return nil }

// Problem writes the page that says what went wrong.
func (p *Pages) Problem(w io.Writer, page ProblemPage) error { return nil }

// AssetsPath is where Assets is mounted.
const AssetsPath = "/oauth/assets/"

// Assets serves the files of the pages below AssetsPath.
func (p *Pages) Assets() http.Handler { return http.NotFoundHandler() }
