// Package mcp is the interface for assistants: the Model Context Protocol at /mcp, in
// its stateless form and in the older ones, with the ten tools of the specification.
// The SDK speaks the protocol; the tools translate to the use cases of media and
// settings, and what stands around the SDK here keeps strangers out and memory
// bounded. Package server mounts it.
package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/limit"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Config says who may come. The tags are flag and environment names.
type Config struct {
	Hosts []string `name:"mcp-hosts" env:"SERVICE_MCP_HOSTS" help:"Hosts (name or name:port) besides SERVICE_BASE_URL's that clients may reach the tools by, such as a name inside the cluster."`
}

// Validate checks the form of the hosts.
func (c Config) Validate() error {
	for _, host := range c.Hosts {
		if host != "" && (strings.ContainsAny(host, "/*@ ") || canonicalHost("https", host) == "") {
			return fmt.Errorf("SERVICE_MCP_HOSTS must hold names like media.team.svc:8080, not %q", host)
		}
	}
	return nil
}

// Parts are what the interface stands on.
type Parts struct {
	Media    *media.Service
	Settings *settings.Service
	Auth     *auth.Authenticator
	URLs     api.URLs
	// Limits count the messages of a batch; nil = none.
	Limits *limit.Limiter
	// BaseURL is how clients reach the service.
	BaseURL string
	// Origins are the web origins whose pages may call, as package server has them.
	Origins []string
	// Version is the service's own, for clients that show it.
	Version string
}

// API serves the endpoint. It is safe for concurrent use.
type API struct {
	parts   Parts
	base    string
	visitor *visitors
	tools   []tool
	calls   *prometheus.CounterVec
	handler http.Handler
}

// listTTL is how long a client may keep a list of tools, in milliseconds: a change of
// the account's leash shows then, and counts at once.
const listTTL = 60_000

// New joins the interface to its parts.
func New(cfg Config, parts Parts) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &API{parts: parts, base: strings.TrimRight(parts.BaseURL, "/")}
	var err error
	if a.visitor, err = newVisitors(parts.BaseURL, cfg.Hosts, parts.Origins); err != nil {
		return nil, err
	}
	a.tools = a.allTools()
	a.calls = newCalls(a.tools)
	a.handler = a.behind(dispatch(a.speak()))
	return a, nil
}

// Mount adds the routes. Only POST does something; the others are there so that a
// client which tries them first is asked for its credential, and not sent away.
func (a *API) Mount(r chi.Router) {
	r.Group(func(r chi.Router) {
		r.Use(a.visitor.check, a.parts.Auth.Middleware(auth.ChallengeLogin))
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			r.Method(method, api.ToolsRoute, a.handler)
		}
	})
}

// speak is the SDK's handler with the tools.
func (a *API) speak() http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "mediastack", Title: "Media storage", Version: a.parts.Version, WebsiteURL: a.base},
		&sdk.ServerOptions{
			Instructions: a.instructions(),
			// Neither a log nor news of changed lists: nothing here outlives a request.
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
			// The SDK's own word is "public": a shared cache would hand one tenant's list to others.
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope, c.TTLMs = "private", listTTL },
			Logger:       slog.New(slog.DiscardHandler), // what goes wrong is in the request's line
		})
	for _, t := range a.tools {
		server.AddTool(t.definition(), a.caller(t))
	}
	server.AddReceivingMiddleware(a.leash)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: restLimit + 1,
		// The visitors' list stands in its place: it knows how the service is reached.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	})
}

// behind puts a handler of the protocol behind what every message passes: the file is
// taken out of the body, and messages are counted.
func (a *API) behind(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &privately{ResponseWriter: w}
		if err := checkHeaders(w, r); err != nil {
			refuse(w, r, err) // unread
			return
		}
		c := newCall(a.parts.Media, auth.FromContext(r.Context()), a.maySend(auth.FromContext(r.Context())))
		defer func() { httpapi.SetError(r.Context(), c.end(r.Context())) }()
		control := http.NewResponseController(w)
		c.stop = func() { _ = control.SetReadDeadline(time.Now()) } // a transport without deadlines has none
		// At the end of the body the middleware checks the credential again.
		rest, err := lift(http.MaxBytesReader(w, r.Body, bodyLimit), func(from *text, needed bool) (string, error) { return c.take(r.Context(), from, needed) })
		if err != nil {
			c.note(err)
			refuse(w, r, err)
			return
		}
		c.grant = auth.FromContext(r.Context())
		c.messages, c.batch, err = readMessages(rest)
		if err == nil {
			err = checkRevision(r.Header, c.messages, c.batch)
		}
		if err != nil {
			c.note(err)
			refuse(w, r, err)
			return
		}
		if err := a.demand(r.Context(), w, c.grant, c.messages); err != nil {
			c.note(err)
			refuse(w, r, err)
			return
		}
		// The first message was counted with the request.
		for range len(c.messages) - 1 {
			verdict := a.parts.Limits.TakeKey(c.grant.Key.ID)
			if !verdict.Refused {
				verdict = a.parts.Limits.TakeAddress(httpapi.FromContext(r.Context()).ClientIP)
			}
			if verdict.Refused {
				httpapi.WriteError(w, r, verdict.Err())
				c.note(verdict.Err())
				return
			}
		}
		next.ServeHTTP(w, withBody(r.WithContext(withCall(r.Context(), c)), rest))
	})
}

// privately keeps answers out of caches, and in one piece on their way through proxies.
type privately struct {
	http.ResponseWriter
	told bool
}

// WriteHeader begins the answer.
func (p *privately) WriteHeader(status int) {
	if !p.told {
		p.told = true
		header := p.Header()
		header.Set("Cache-Control", "private, no-store, no-transform")
		header.Set("X-Accel-Buffering", "no")
		header.Set("X-Content-Type-Options", "nosniff")
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write sends bytes.
func (p *privately) Write(b []byte) (int, error) {
	if !p.told {
		p.WriteHeader(http.StatusOK)
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (p *privately) Unwrap() http.ResponseWriter { return p.ResponseWriter }
