// Package server runs the HTTP servers of the runtime: the public one, with the middleware of
// all requests (request id, log, metrics, recovery, deadlines, CORS, rate limit), and the
// admin one with health, readiness and metrics.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/origin"
	"mediastack.dev/runtime/internal/ratelimit"
)

// Config configures the servers. The tags are flag and environment names.
type Config struct {
	BaseURL               string        `env:"SERVICE_BASE_URL" required:"" help:"URL of the service for tenants, without a path, such as https://media.example.org. The operator writes it to the status and the Secret of every account."`
	Brand                 string        `env:"SERVICE_BRAND" default:"service" help:"Brand in header names: x-<brand>-apikey."`
	Listen                string        `env:"SERVICE_LISTEN" default:":8080" help:"Listen address of the service."`
	AdminListen           string        `env:"SERVICE_ADMIN_LISTEN" default:":8081" help:"Listen address of health, readiness and metrics; keep it private."`
	StallTimeout          time.Duration `env:"SERVICE_STALL_TIMEOUT" default:"60s" help:"How long a client may make no progress while it sends or receives a body."`
	MinRate               int64         `name:"min-transfer-rate" env:"SERVICE_MIN_TRANSFER_RATE" default:"1024" help:"Minimum transfer rate of a body, in bytes per second over SERVICE_STALL_TIMEOUT; 0 accepts any progress."`
	AnonymousTimeout      time.Duration `name:"anonymous-body-timeout" env:"SERVICE_ANONYMOUS_BODY_TIMEOUT" default:"10s" help:"Time for the whole body of a request without a credential, such as a login; 0 = no limit."`
	MaxConnections        int           `env:"SERVICE_MAX_CONNECTIONS" default:"4096" help:"Maximum number of open client connections. The limit of file descriptors also bounds them; 0 = no other limit."`
	MaxConnectionsPerIP   int           `name:"max-connections-per-ip" env:"SERVICE_MAX_CONNECTIONS_PER_IP" default:"512" help:"Open connections of one client IP (IPv6: one /64), except trusted proxies, and bodies of one client IP that are on their way, behind a proxy, too; 0 = no limit of both."`
	JSONBodyTimeout       time.Duration `name:"json-body-timeout" env:"SERVICE_JSON_BODY_TIMEOUT" default:"10s" help:"Time for each 64 KiB of a body of JSON or of a form, files excepted, from 100ms to 10m; 0 = no limit."`
	BodyPerAccountPercent int           `env:"SERVICE_BODY_PER_ACCOUNT_PERCENT" default:"15" help:"Request bodies of one account that may be on their way at once, in percent of the connections, from 0 to 100; 0 = no limit."`
	DiscardLimit          int64         `env:"SERVICE_DISCARD_LIMIT" default:"16777216" help:"Bytes of a rejected body that are read and dropped after the response, for clients that read the response only after they have sent everything."`
	DiscardTimeout        time.Duration `env:"SERVICE_DISCARD_TIMEOUT" default:"10s" help:"Time to read and drop the rest of a rejected body."`
	Pprof                 bool          `env:"SERVICE_PPROF" default:"false" help:"Serve profiles of the process at /debug/pprof/, of the runtime on SERVICE_ADMIN_LISTEN, of the operator on SERVICE_METRICS_LISTEN."`
	DrainDelay            time.Duration `env:"SERVICE_DRAIN_DELAY" default:"5s" help:"How long to continue serving, not ready, after SIGTERM, so that load balancers notice; from 0s to 5m."`
	TrustTraceparent      bool          `env:"SERVICE_TRUST_TRACEPARENT" help:"Continue the trace that a request of SERVICE_TRUSTED_PROXIES names in its header traceparent. The proxies must replace the header of clients."`
	ShutdownTimeout       time.Duration `env:"SERVICE_SHUTDOWN_TIMEOUT" default:"60s" help:"How long running requests may take to end after SERVICE_DRAIN_DELAY."`

	Origins origin.Config `embed:""`
	TLS     TLSConfig     `embed:"" prefix:"tls-"`

	AdminTLS AdminTLSConfig `embed:"" prefix:"admin-tls-"`
}

var brandPattern = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// Validate checks the bounds.
func (c Config) Validate() error {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" ||
		strings.Trim(base.Path, "/") != "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return fmt.Errorf("SERVICE_BASE_URL must look like https://host[:port], without a path, not %q", c.BaseURL)
	}
	switch {
	case !brandPattern.MatchString(c.Brand):
		return fmt.Errorf("SERVICE_BRAND must be 1 to 32 of a-z, 0-9 and -, not %q", c.Brand)
	case c.StallTimeout < time.Second:
		return fmt.Errorf("SERVICE_STALL_TIMEOUT must be at least 1s, not %s", c.StallTimeout)
	case c.MinRate < 0:
		return fmt.Errorf("SERVICE_MIN_TRANSFER_RATE must not be negative, but is %d", c.MinRate)
	case c.AnonymousTimeout < 0:
		return fmt.Errorf("SERVICE_ANONYMOUS_BODY_TIMEOUT must not be negative, but is %s", c.AnonymousTimeout)
	case c.JSONBodyTimeout != 0 && (c.JSONBodyTimeout < minJSONBodyTimeout || c.JSONBodyTimeout > maxJSONBodyTimeout):
		return fmt.Errorf("SERVICE_JSON_BODY_TIMEOUT must be 0s, or from %s to %s, not %s", minJSONBodyTimeout, maxJSONBodyTimeout, c.JSONBodyTimeout)
	case c.BodyPerAccountPercent < 0 || c.BodyPerAccountPercent > 100:
		return fmt.Errorf("SERVICE_BODY_PER_ACCOUNT_PERCENT must be from 0 to 100, not %d", c.BodyPerAccountPercent)
	case c.MaxConnections < 0 || c.MaxConnections > 0 && c.MaxConnections < minConnections:
		return fmt.Errorf("SERVICE_MAX_CONNECTIONS must be 0, or at least %d, not %d", minConnections, c.MaxConnections)
	case c.MaxConnectionsPerIP < 0:
		return fmt.Errorf("SERVICE_MAX_CONNECTIONS_PER_IP must not be negative, but is %d", c.MaxConnectionsPerIP)
	case c.DiscardLimit < 0 || c.DiscardLimit > maxDiscardLimit:
		return fmt.Errorf("SERVICE_DISCARD_LIMIT must be from 0 to %d, not %d", maxDiscardLimit, c.DiscardLimit)
	case c.DiscardTimeout < 0 || c.DiscardTimeout > maxDiscardTimeout:
		return fmt.Errorf("SERVICE_DISCARD_TIMEOUT must be from 0s to %s, not %s", maxDiscardTimeout, c.DiscardTimeout)
	case c.DrainDelay < 0 || c.DrainDelay > maxDrainDelay:
		return fmt.Errorf("SERVICE_DRAIN_DELAY must be from 0s to %s, not %s", maxDrainDelay, c.DrainDelay)
	case c.ShutdownTimeout < 0:
		return fmt.Errorf("SERVICE_SHUTDOWN_TIMEOUT must not be negative, but is %s", c.ShutdownTimeout)
	case c.TLS.Enabled() && base.Scheme != "https":
		return fmt.Errorf("SERVICE_BASE_URL must begin with https:// if SERVICE_TLS_CERT_FILE is set, but is %q", c.BaseURL)
	}
	if err := errors.Join(c.TLS.Validate(), c.AdminTLS.Validate()); err != nil {
		return err
	}
	return c.Origins.Validate()
}

// Limits of the HTTP servers.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
	// headerLimit is how many bytes a request line and headers may really have: net/http adds the size of its buffer.
	headerLimit = maxHeaderBytes + 4<<10

	// Bounds of SERVICE_JSON_BODY_TIMEOUT.
	minJSONBodyTimeout = 100 * time.Millisecond
	maxJSONBodyTimeout = 10 * time.Minute

	maxDiscardLimit   = 1 << 30 // bytes
	maxDiscardTimeout = time.Minute
	maxDrainDelay     = 5 * time.Minute

	// Limits of the admin server, whose responses are short.
	adminTimeout        = 10 * time.Second
	maxAdminConnections = 64
)

// Server runs the public and the admin server. Call Listen, then Run.
type Server struct {
	cfg      Config
	log      *slog.Logger
	checks   []Check
	draining atomic.Bool
	bodies   *bodies

	allowed     int    // connections of clients
	descriptors uint64 // RLIMIT_NOFILE
	reduced     bool   // allowed is below SERVICE_MAX_CONNECTIONS

	limits      *ratelimit.Limiter
	connections *connectionMetrics

	certificates                  []*certificate // of the servers that have one
	public, admin                 *http.Server
	publicListener, adminListener *listener
}

// Deps are the dependencies of a Server.
type Deps struct {
	// Mounts add the public routes.
	Mounts []func(chi.Router)
	// Limits applies rate limits; nil = none.
	Limits *ratelimit.Limiter
	// Origins are the web origins whose pages may call; nil = none.
	Origins *origin.Policy
	// Accounts counts the requests of each account; nil = they are not counted.
	Accounts *accountmetrics.Metrics
	// Checks are the readiness checks of the admin server.
	Checks []Check
	// Registry takes the metrics of the servers. The admin server exports it.
	Registry *prometheus.Registry
	// Tracer begins a trace for each request; nil = none.
	Tracer trace.Tracer
	// Log has the handler httpapi.LogHandler, which adds the id of the request.
	Log *slog.Logger
}

// New returns a Server that uses deps.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	connections, err := newConnectionMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	requests, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: deps.Log, checks: deps.Checks, limits: deps.Limits, connections: connections}
	if s.descriptors, err = descriptorLimit(); err != nil {
		return nil, err
	}
	s.allowed, s.reduced = maxConnections(cfg.MaxConnections, s.descriptors)
	if s.bodies, err = newBodies(cfg, s.allowed, deps.Limits.TrustsProxy, deps.Registry); err != nil {
		return nil, err
	}
	handler, err := newHandler(cfg, deps, requests, s.bodies)
	if err != nil {
		return nil, err
	}
	s.public = s.httpServer(s.endConnections(handler))
	if cfg.TLS.Enabled() {
		if err := s.encrypt(s.public, publicCertificate, cfg.TLS, deps.Registry); err != nil {
			return nil, err
		}
	}
	s.admin = s.httpServer(guarded(cfg, s.adminHandler(deps.Registry)))
	s.admin.ReadTimeout, s.admin.WriteTimeout = adminTimeout, adminTimeout
	if cfg.AdminTLS.CertFile != "" {
		files := TLSConfig{CertFile: cfg.AdminTLS.CertFile, KeyFile: cfg.AdminTLS.KeyFile, ReloadInterval: cfg.TLS.ReloadInterval}
		if err := s.encrypt(s.admin, adminCertificate, files, deps.Registry); err != nil {
			return nil, err
		}
	}
	if cfg.AdminTLS.TokenFile != "" {
		if _, err := metricsTokens(cfg.AdminTLS.TokenFile); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// encrypt has a server take HTTPS only.
func (s *Server) encrypt(server *http.Server, kind certificateKind, files TLSConfig, registry prometheus.Registerer) error {
	loaded, err := loadCertificate(kind, files, registry, s.log)
	if err != nil {
		return err
	}
	s.certificates, server.TLSConfig = append(s.certificates, loaded), loaded.config()
	return nil
}

// httpServer returns a server of HTTP/1 only, with TLS, too. In HTTP/2 a connection carries many
// requests, so that the bounds of connections would not bound requests, a rejected body could not be
// left unread by closing its connection, and deadlines of a body would not be those of its
// connection. A proxy in front may end HTTP/2.
func (s *Server) httpServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Protocols:   protocols,
		ConnContext: withConnection,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connectionOf(r.Context()).setHandled(true)
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// net/http would answer OPTIONS * itself, without the deadlines and bounds of the handler.
		DisableGeneralOptionsHandler: true,
		// net/http itself logs errors of connections only, which are of no use to an operator.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Listen opens the ports, so that a port in use is reported at startup.
func (s *Server) Listen(ctx context.Context) error {
	if s.reduced {
		s.log.WarnContext(ctx, "fewer connections are allowed than SERVICE_MAX_CONNECTIONS: the limit of file descriptors is low", "allowed", s.allowed, "descriptors", s.descriptors)
	}
	var err error
	if s.publicListener, err = s.listen(ctx, s.public, s.cfg.Listen, s.allowed, s.cfg.MaxConnectionsPerIP, s.connections); err != nil {
		return fmt.Errorf("listen on SERVICE_LISTEN %s: %w", s.cfg.Listen, err)
	}
	s.publicListener.bodies = s.bodies
	if s.adminListener, err = s.listen(ctx, s.admin, s.cfg.AdminListen, maxAdminConnections, 0, nil); err != nil {
		_ = s.publicListener.Close()
		return fmt.Errorf("listen on SERVICE_ADMIN_LISTEN %s: %w", s.cfg.AdminListen, err)
	}
	return nil
}

// listen opens a server's port.
func (s *Server) listen(ctx context.Context, server *http.Server, address string, maximum, maxPerIP int, m *connectionMetrics) (*listener, error) {
	var network net.ListenConfig
	at, err := network.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	bounded := newListener(at.(*net.TCPListener), maximum, maxPerIP, s.limits.TrustsProxy, m, s.log) //nolint:forcetypeassert // of the network "tcp"
	bounded.tls = server.TLSConfig
	server.ConnState = bounded.observe
	return bounded, nil
}

// Addr is where the public server listens; AdminAddr the other one.
func (s *Server) Addr() string { return s.publicListener.Addr().String() }

// AdminAddr is where the admin server listens.
func (s *Server) AdminAddr() string { return s.adminListener.Addr().String() }

// Run serves until ctx ends. Then it is not ready, and serves on for DrainDelay, in which every
// response closes its connection. Then it takes no new connections, and lets running requests end
// for ShutdownTimeout.
func (s *Server) Run(ctx context.Context) error {
	s.log.InfoContext(ctx, "listening", "address", s.Addr(), "admin", s.AdminAddr(), "base_url", s.cfg.BaseURL, "tls", s.public.TLSConfig != nil, "admin_tls", s.admin.TLSConfig != nil)
	group, failed := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(s.public, s.publicListener) })
	group.Go(func() error { return serve(s.admin, s.adminListener) })
	for _, one := range s.certificates {
		group.Go(func() error { one.run(failed); return nil })
	}
	group.Go(func() error {
		<-failed.Done()
		return s.shutDown(context.WithoutCancel(ctx))
	})
	return group.Wait()
}

func serve(server *http.Server, at net.Listener) error {
	run := server.Serve
	if server.TLSConfig != nil {
		run = func(at net.Listener) error { return server.ServeTLS(at, "", "") }
	}
	if err := run(at); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", at.Addr(), err)
	}
	return nil
}

// endConnections asks clients, while the server drains, to use another connection for their next
// request: one that is sent while the server closes idle connections would fail.
func (s *Server) endConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) shutDown(ctx context.Context) error {
	s.draining.Store(true)
	s.log.InfoContext(ctx, "shutting down", "drain_delay", s.cfg.DrainDelay, "timeout", s.cfg.ShutdownTimeout)
	if s.cfg.DrainDelay > 0 {
		<-time.After(s.cfg.DrainDelay)
	}
	ending, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	err := s.public.Shutdown(ending)
	if err != nil {
		s.log.WarnContext(ctx, "requests aborted at shutdown", "after", s.cfg.ShutdownTimeout)
		err = s.public.Close()
	}
	// The admin server responds until the end: probes see "not ready" instead of no response.
	return errors.Join(err, s.admin.Close())
}
