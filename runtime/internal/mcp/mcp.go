// Package mcp is the interface for assistants: the Model Context Protocol at /mcp, in
// its stateless form and in the older ones, with the ten tools of the specification and more in
// toolsets. The SDK implements the protocol, the tools translate to the use cases of media and settings.
// Before the SDK, the middleware of this package validates hosts, bounds memory and authorizes.
// Package server mounts the endpoint.
package mcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/origin"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// Config is the configuration of the interface. The tags are flag and environment names; the
// program sets the fields that have none.
type Config struct {
	Hosts []string `name:"mcp-hosts" env:"SERVICE_MCP_HOSTS" help:"Hosts (name or name:port) besides that of SERVICE_BASE_URL that clients may reach the tools by, such as a name inside the cluster."`

	// BaseURL is the URL by which clients reach the service.
	BaseURL string `kong:"-"`
	// DraftTTL is how long a draft is kept, as SERVICE_DRAFT_TTL says.
	DraftTTL time.Duration `kong:"-"`
	// Version is the version of the service, Title its display name and Website a page about it, for clients that display
	// them. Without them the title is Media storage, and the page is BaseURL.
	Version string `kong:"-"`
	Title   string `kong:"-"`
	Website string `kong:"-"`
	// Icons are pictures of the brand; none = clients show their own.
	Icons []sdk.Icon `kong:"-"`
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

// Deps are the dependencies of an API.
type Deps struct {
	Media    *media.Service
	Items    media.ItemReader
	Uploads  *upload.Service
	Settings *settings.Service
	// Fetch are the uploads from a URL; nil = disabled.
	Fetch *fetch.Service
	// Activity is that of the journals.
	Activity *journal.Activity
	// Approvals record what waits for the yes of an owner; nil = nothing can, so what would have to wait is rejected.
	Approvals *approval.Service
	// Handover are the files that assistants request of a person; nil = there is no page for that.
	Handover *handover.Service
	// Views makes the pictures of the toolset see; nil = there are none, and no such tool.
	Views Views
	Auth  *auth.Authenticator
	// Documents are those of items.
	Documents api.Documents
	// Origins are the web origins whose pages may call; nil = only those of the base URL.
	Origins *origin.Policy
	// Limits count the messages of a batch; nil = none.
	Limits *ratelimit.Limiter
}

// API serves the endpoint. It is safe for concurrent use.
type API struct {
	cfg       Config
	deps      Deps
	base      string
	hosts     *hostGuard
	tools     []tool // all of the installation; see toolsOf
	cache     *toolCache
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
	handler   http.Handler
}

// listTTL is how long clients may cache the list of tools, in milliseconds. A change of the tool
// policy applies to calls at once, and is listed after that time.
const listTTL = 60_000

// New returns an API that uses deps.
func New(cfg Config, deps Deps) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &API{cfg: cfg, deps: deps, base: strings.TrimRight(cfg.BaseURL, "/")}
	var err error
	if a.hosts, err = newHostGuard(cfg.BaseURL, cfg.Hosts, deps.Origins); err != nil {
		return nil, err
	}
	a.cache = newToolCache()
	a.tools = a.newToolsOf(a.wholeView())
	a.calls, a.durations = newCalls(a.tools), newDurations(a.tools)
	a.handler = a.preprocess(dispatch(a.newSDKHandler()))
	return a, nil
}

// allowedMethods is the method that does something.
const allowedMethods = http.MethodPost

// Mount adds the routes. Only POST is supported; the other methods are routed so that a client
// which tries them first gets a challenge for its credential.
func (a *API) Mount(r chi.Router) {
	r.Group(func(r chi.Router) {
		r.Use(a.hosts.check, a.deps.Auth.Middleware(auth.ChallengeLogin))
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			r.Method(method, api.ToolsRoute, a.handler)
		}
	})
	r.With(a.hosts.check).Options(api.ToolsRoute, func(w http.ResponseWriter, _ *http.Request) { // no preflight of a page
		w.Header().Set("Allow", allowedMethods)
		w.WriteHeader(http.StatusNoContent)
	})
}

// newSDKHandler returns the SDK's handler with the tools.
func (a *API) newSDKHandler() http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "mediastack", Title: cmp.Or(a.cfg.Title, "Media storage"), Version: a.cfg.Version, WebsiteURL: cmp.Or(a.cfg.Website, a.base), Icons: a.cfg.Icons},
		&sdk.ServerOptions{
			Instructions: a.instructions(a.wholeView()), // authorizeTools replaces them
			// Neither logging nor list notifications: nothing here outlives a request.
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
			// The default of the SDK is "public": a shared cache would return one tenant's list to others.
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope, c.TTLMs = "private", listTTL },
			Logger:       slog.New(slog.DiscardHandler), // errors are in the log line of the request
		})
	for _, t := range a.tools {
		server.AddTool(t.definition(), a.toolHandler(t))
	}
	server.AddReceivingMiddleware(a.authorizeTools)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxEnvelope + 1,
		// hostGuard replaces it: it derives the hosts from the configuration.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	})
}

// preprocess returns the middleware of every request: it checks headers, extracts the file from the
// body, checks scopes and counts messages towards the limits.
func (a *API) preprocess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &noStoreWriter{ResponseWriter: w}
		if err := checkHeaders(w, r); err != nil {
			writeRPCError(w, r, err) // before the body is read
			return
		}
		c := newRequestState(a.deps.Uploads, auth.FromContext(r.Context()), canUpload(auth.FromContext(r.Context())))
		defer func() { httpapi.SetError(r.Context(), c.close(r.Context())) }()
		c.left = r.Context()
		control := http.NewResponseController(w)
		c.stop = func() { _ = control.SetReadDeadline(time.Now()) } // a transport without deadlines has none
		// At the end of the body the middleware checks the credential again.
		httpapi.ReadDocument(r.Context(), true)
		envelope, err := extractFiles(http.MaxBytesReader(w, r.Body, maxBody), func(from *stringReader, isUpload bool) (string, error) {
			// A file has the time of a file. It holds a slot for uploads meanwhile.
			httpapi.ReadDocument(r.Context(), false)
			defer httpapi.ReadDocument(r.Context(), true)
			return c.receiveFile(r.Context(), from, isUpload)
		})
		if err != nil {
			c.addError(err)
			writeRPCError(w, r, err)
			return
		}
		c.identity = auth.FromContext(r.Context())
		c.messages, c.batch, err = readMessages(envelope)
		if err == nil {
			err = checkRevision(r.Header, c.messages, c.batch)
		}
		if err != nil {
			c.addError(err)
			writeRPCError(w, r, err)
			return
		}
		if err := a.checkScopes(r.Context(), w, c.identity, c.messages); err != nil {
			c.addError(err)
			writeRPCError(w, r, err)
			return
		}
		// The first message was counted with the request.
		for range len(c.messages) - 1 {
			decision := a.deps.Limits.AllowKey(c.identity.Key.ID)
			if !decision.Limited {
				decision = a.deps.Limits.AllowIP(httpapi.FromContext(r.Context()).ClientIP)
			}
			if decision.Limited {
				httpapi.WriteError(w, r, decision.Err())
				c.addError(decision.Err())
				return
			}
		}
		next.ServeHTTP(w, withBody(r.WithContext(newContext(r.Context(), c)), envelope))
	})
}

// noStoreWriter sets the headers that prevent caches from storing answers, and proxies from
// buffering or transforming them.
type noStoreWriter struct {
	http.ResponseWriter
	wroteHeader bool
}

// WriteHeader sends the headers.
func (n *noStoreWriter) WriteHeader(status int) {
	if !n.wroteHeader {
		n.wroteHeader = true
		header := n.Header()
		header.Set("Cache-Control", "private, no-store, no-transform")
		header.Set("X-Accel-Buffering", "no")
		header.Set("X-Content-Type-Options", "nosniff")
	}
	n.ResponseWriter.WriteHeader(status)
}

// Write sends bytes.
func (n *noStoreWriter) Write(b []byte) (int, error) {
	if !n.wroteHeader {
		n.WriteHeader(http.StatusOK)
	}
	return n.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (n *noStoreWriter) Unwrap() http.ResponseWriter { return n.ResponseWriter }
