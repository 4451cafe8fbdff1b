package cells

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/webuser"
	"mediastack.dev/runtime/cell"
)

// edge is the one address of several cells: a proxy that finds the cell of a request by what the
// request contains, without a database of its own but the directory of owners.
type edge struct {
	*httptest.Server
	directory map[string]cell.Number // owners by e-mail address

	mu    sync.Mutex
	cells map[cell.Number]string // addresses
	next  int
	took  map[string]int // requests by the way in which the cell was found
}

const (
	finderPath   = "/edge/find" // the form that asks for the e-mail address before a login
	finderCookie = "edge-cell"  // the cell of the browser's user
	maxForm      = 8 << 10      // as the service limits forms
)

func newEdge(t *testing.T, directory map[string]cell.Number) *edge {
	t.Helper()
	e := &edge{directory: directory, cells: map[cell.Number]string{}, took: map[string]int{}}
	e.Server = httptest.NewServer(http.HandlerFunc(e.serve))
	t.Cleanup(e.Close)
	return e
}

func (e *edge) serve(w http.ResponseWriter, r *http.Request) {
	login := r.Method == http.MethodGet && (r.URL.Path == "/oauth/authorize" || isAccountPage(r) && !r.URL.Query().Has("request"))
	switch {
	case r.URL.Path == finderPath:
		e.remember(w, r)
		return
	case r.URL.Path == "/oauth/register":
		e.register(w, r)
		return
	case r.Method == http.MethodOptions:
		e.preflight(w, r)
		return
	case login:
		if _, err := r.Cookie(finderCookie); err != nil {
			_, _ = fmt.Fprintf(w, `<form method="post" action="%s"><input name="email"><input type="hidden" name="to" value="%s"></form>`, finderPath, html.EscapeString(r.URL.String()))
			return
		}
	}
	number, how := e.find(r)
	e.forward(w, r, e.address(number, how))
}

// find returns the cell of a request, and by what it was found; "" if the request names none, so
// that any cell can answer it.
func (e *edge) find(r *http.Request) (number cell.Number, how string) {
	for _, header := range []string{"x-service-apikey", "x-service-signature"} {
		if n, ok := cell.OfCredential(r.Header.Get(header)); ok {
			return n, header
		}
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if n, ok := cell.OfCredential(token); ok {
			return n, "access token"
		}
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/media/file/"); ok {
		text, _, _ := strings.Cut(rest, "/")
		if n, ok := ofID(text); ok {
			return n, "media id"
		}
	}
	if n, ok := ofID(r.URL.Query().Get("request")); ok {
		return n, "login"
	}
	if r.Method == http.MethodPost && (r.URL.Path == "/oauth/token" || r.URL.Path == "/oauth/revoke") {
		return ofForm(r)
	}
	if cookie, err := r.Cookie(finderCookie); err == nil && (r.URL.Path == "/oauth/authorize" || isAccountPage(r)) {
		n, err := strconv.Atoi(cookie.Value)
		return cell.Number(n), map[bool]string{true: "cookie of the edge"}[err == nil]
	}
	return 0, ""
}

// isAccountPage reports whether a request is for a page of the owner, where a login may begin.
func isAccountPage(r *http.Request) bool {
	return r.URL.Path == "/account/connections" || r.URL.Path == "/account/files"
}

func ofID(text string) (cell.Number, bool) {
	id, err := uuid.Parse(text)
	if err != nil {
		return 0, false
	}
	return cell.OfID(id)
}

// ofForm finds the cell by a field of a form, and leaves the body as it was.
func ofForm(r *http.Request) (cell.Number, string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm))
	if err != nil {
		return 0, ""
	}
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	form, _ := url.ParseQuery(string(body)) // the cell says what is wrong with it
	for _, field := range []string{"code", "refresh_token", "token"} {
		if n, ok := cell.OfCredential(form.Get(field)); ok {
			return n, field
		}
	}
	return 0, ""
}

// address returns the address of a cell; that of any cell if the number is unknown.
func (e *edge) address(number cell.Number, how string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.took[how]++
	if address, ok := e.cells[number]; ok && how != "" {
		return address
	}
	e.next++
	at := 0
	for _, address := range e.cells {
		if at == e.next%len(e.cells) {
			return address
		}
		at++
	}
	return ""
}

func (e *edge) forward(w http.ResponseWriter, r *http.Request, address string) {
	proxy := httputil.ReverseProxy{FlushInterval: -1,
		Rewrite:        func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host = "http", address },
		ModifyResponse: func(answer *http.Response) error { answer.Header.Set(webuser.ServedBy, address); return nil }}
	proxy.ServeHTTP(w, r)
}

// register sends a registration to every cell, because nobody knows yet where the user's account
// is. All return the same client id.
func (e *edge) register(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.took["every cell"]++
	var first *httptest.ResponseRecorder
	for _, address := range e.cells {
		answer := httptest.NewRecorder()
		one := r.Clone(r.Context())
		one.Body = io.NopCloser(bytes.NewReader(body))
		e.forward(answer, one, address)
		if first == nil {
			first = answer
		}
		if clientID(answer.Body.Bytes()) != clientID(first.Body.Bytes()) || answer.Code != first.Code {
			http.Error(w, "the cells registered different clients", http.StatusBadGateway)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(first.Code)
	_, _ = w.Write(first.Body.Bytes())
}

// preflight asks every cell, because the origin may be in the list of an account of any of them. One
// that permits it counts.
func (e *edge) preflight(w http.ResponseWriter, r *http.Request) {
	var answer *httptest.ResponseRecorder
	for _, address := range e.cells {
		answer = httptest.NewRecorder()
		e.forward(answer, r, address)
		if answer.Header().Get("Access-Control-Allow-Origin") != "" {
			break
		}
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
}

// remember keeps the cell of an e-mail address in a cookie, and repeats the request that asked. An
// address that is unknown gets one of the cells: the answer must not say which addresses are known.
func (e *edge) remember(w http.ResponseWriter, r *http.Request) {
	number := e.directory[r.PostFormValue("email")]
	http.SetCookie(w, &http.Cookie{Name: finderCookie, Value: strconv.Itoa(int(number)), Path: "/", HttpOnly: true})
	to, err := url.Parse(r.PostFormValue("to"))
	if err != nil || to.IsAbs() || to.Host != "" {
		http.Error(w, "bad target", http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}
