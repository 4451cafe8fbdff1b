// Package origin decides which web origins may call the service: pages of the origins of the
// installation (SERVICE_CORS_ORIGINS), and of those that an account lists (spec.cors.origins of
// its MediaAccount). A preflight names no account, so that it is answered for the origins of all
// accounts; package auth checks the account's own list when it knows the account.
package origin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jub0bs/cors"
	"github.com/jub0bs/cors/cfgerrors"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/lru"
)

// AccountLists selects what the lists of accounts can do.
type AccountLists string

// The values of AccountLists.
const (
	// AccountListsReplace makes the installation's list the default of accounts without one.
	AccountListsReplace AccountLists = "replace"
	// AccountListsNarrow makes the installation's list a ceiling: an account's list can only
	// exclude origins of it.
	AccountListsNarrow AccountLists = "narrow"
)

// Config configures a Policy. The tags are flag and environment names.
type Config struct {
	Patterns     []string     `name:"cors-origins" env:"SERVICE_CORS_ORIGINS" help:"Web origins whose pages may upload and call the tools: https://app.example.org, https://*.example.org, or * for all. Pages of every origin may read files."`
	AccountLists AccountLists `name:"cors-account-lists" env:"SERVICE_CORS_ACCOUNT_LISTS" default:"replace" enum:"replace,narrow" help:"What spec.cors.origins of a MediaAccount does: replace SERVICE_CORS_ORIGINS for the account, or narrow it."`
}

// Validate checks the patterns.
func (c Config) Validate() error {
	_, err := New(c)
	return err
}

// patterns is a set of origins: of exact ones, such as https://app.example.org, and of patterns,
// such as https://*.example.org. The zero value is empty.
type patterns struct{ middleware *cors.Middleware }

// parse returns the set of some patterns.
func parse(texts []string) (patterns, error) {
	if len(texts) == 0 {
		return patterns{}, nil
	}
	middleware, err := cors.NewMiddleware(cors.Config{Origins: texts})
	for _, text := range texts {
		if text == "*" {
			continue
		}
		if reason := account.CheckOrigin(text); reason != nil { // which says more than the error of package cors
			return patterns{}, reason
		}
	}
	if err != nil {
		return patterns{}, firstError(err)
	}
	return patterns{middleware}, nil
}

// firstError returns the first error about an origin, or err.
func firstError(err error) error {
	var origin *cfgerrors.UnacceptableOriginPatternError
	if errors.As(err, &origin) {
		return origin
	}
	return err
}

// contains reports whether an origin is in the set.
func (p patterns) contains(origin string) bool {
	if p.middleware == nil {
		return false
	}
	answer := &headerRecorder{header: http.Header{}}
	p.middleware.Wrap(answer).ServeHTTP(answer, &http.Request{Method: http.MethodGet, Header: http.Header{"Origin": {origin}}})
	return answer.header.Get("Access-Control-Allow-Origin") != ""
}

// headerRecorder records the headers that package cors would send to a browser.
type headerRecorder struct{ header http.Header }

// Header returns the recorded headers.
func (h *headerRecorder) Header() http.Header { return h.header }

// Write ignores the body.
func (h *headerRecorder) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader ignores the status.
func (h *headerRecorder) WriteHeader(int) {}

// ServeHTTP does nothing.
func (h *headerRecorder) ServeHTTP(http.ResponseWriter, *http.Request) {}

// Policy decides which origins may call. It is safe for concurrent use. A nil Policy allows none.
type Policy struct {
	accountLists AccountLists
	list         []string
	installation patterns
	all          atomic.Pointer[patterns] // of the installation and of all accounts

	mu     sync.Mutex
	parsed *lru.Map[string, patterns] // of the lists of accounts

	// updating serializes updates. Requests do not wait for them.
	updating sync.Mutex
	onChange []func(list []string) error
	current  []string        // the patterns of the installation and of all accounts
	accounts map[string]bool // the patterns of all accounts, and whether they are valid
}

// maxParsed bounds the parsed lists that are kept.
const maxParsed = 1000

// New returns the Policy of an installation, which knows no lists of accounts.
func New(cfg Config) (*Policy, error) {
	p := &Policy{accountLists: cfg.AccountLists, parsed: lru.New[string, patterns](maxParsed),
		list: slices.DeleteFunc(slices.Clone(cfg.Patterns), func(text string) bool { return text == "" })}
	var err error
	if p.installation, err = parse(p.list); err != nil {
		return nil, fmt.Errorf("SERVICE_CORS_ORIGINS: %w", err)
	}
	if len(p.list) == 0 && cfg.AccountLists == AccountListsNarrow {
		return nil, errors.New("SERVICE_CORS_ACCOUNT_LISTS=narrow needs SERVICE_CORS_ORIGINS: accounts can only narrow that list, so that with an empty one no page may call. Set SERVICE_CORS_ORIGINS, or SERVICE_CORS_ACCOUNT_LISTS=replace")
	}
	p.all.Store(&p.installation)
	p.current = p.list
	return p, nil
}

// OnChange calls f with the patterns of the installation and of all accounts, now and whenever
// they change. It returns the error of the first call.
func (p *Policy) OnChange(f func(list []string) error) error {
	if p == nil {
		return f(nil)
	}
	p.updating.Lock()
	defer p.updating.Unlock()
	p.onChange = append(p.onChange, f)
	return f(p.current)
}

// UsesAccountLists reports whether SetAccountOrigins has an effect.
func (p *Policy) UsesAccountLists() bool { return p != nil && p.accountLists != AccountListsNarrow }

// SetAccountOrigins sets the patterns of all accounts. It returns those that are invalid, which
// have no effect.
func (p *Policy) SetAccountOrigins(texts []string) (invalid []string, err error) {
	if !p.UsesAccountLists() {
		return nil, nil
	}
	p.updating.Lock()
	defer p.updating.Unlock()
	list, accounts := slices.Clone(p.list), make(map[string]bool, len(texts))
	for _, text := range texts {
		valid, known := p.accounts[text]
		if !known {
			_, err := parse([]string{text})
			valid = err == nil && text != "*"
		}
		if accounts[text] = valid; valid {
			list = append(list, text)
		} else {
			invalid = append(invalid, text)
		}
	}
	p.accounts = accounts
	slices.Sort(list)
	list = slices.Compact(list)
	if slices.Contains(list, "*") { // package cors accepts it alone only
		list = []string{"*"}
	}
	if slices.Equal(list, p.current) {
		return invalid, nil
	}
	all, err := parse(list)
	if err != nil {
		return invalid, err
	}
	p.all.Store(&all)
	p.current = list
	for _, f := range p.onChange {
		err = errors.Join(err, f(list))
	}
	return invalid, err
}

// Allows reports whether an origin may call for some account.
func (p *Policy) Allows(origin string) bool { return p != nil && p.all.Load().contains(origin) }

// CheckAccount returns why an origin may not call for an account with this list; nil = it has none.
func (p *Policy) CheckAccount(list []string, origin string) error {
	listed := p != nil && p.installation.contains(origin)
	switch {
	case p != nil && list != nil && p.ofAccount(list).contains(origin) && (listed || p.UsesAccountLists()), list == nil && listed:
		return nil
	case list == nil:
		return errors.New("SERVICE_CORS_ORIGINS does not name it, and the MediaAccount has no spec.cors.origins")
	case !listed && !p.UsesAccountLists():
		return errors.New("SERVICE_CORS_ORIGINS does not name it, and spec.cors.origins of the MediaAccount can only exclude origins of that list")
	}
	return errors.New("add it to spec.cors.origins of the MediaAccount")
}

// ofAccount returns the set of an account's valid patterns.
func (p *Policy) ofAccount(list []string) patterns {
	key := strings.Join(list, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if set, ok := p.parsed.Get(key); ok {
		return set
	}
	valid := slices.DeleteFunc(slices.Clone(list), func(text string) bool {
		_, err := parse([]string{text})
		return err != nil || text == "*"
	})
	set, err := parse(valid)
	if err != nil {
		set = patterns{}
	}
	p.parsed.Put(key, set)
	return set
}
