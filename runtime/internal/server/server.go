// Package server runs the runtime's HTTP servers: the public one, with what every
// request passes through (request id, log line, metrics, recovery, deadlines), and
// the admin one with health, readiness and metrics. A main gives it the routes and
// the checks, and runs it.
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
	"golang.org/x/sync/errgroup"

	"mediastack.dev/runtime/internal/limit"
)

// Config says where the servers listen and how they end. The tags are flag and
// environment names.
type Config struct {
	BaseURL          string        `env:"SERVICE_BASE_URL" required:"" help:"How clients reach the service, e.g. https://media.example.org; without a path."`
	Brand            string        `env:"SERVICE_BRAND" default:"service" help:"The word in header names: x-<brand>-apikey."`
	Listen           string        `env:"SERVICE_LISTEN" default:":8080" help:"Address of the service."`
	AdminListen      string        `env:"SERVICE_ADMIN_LISTEN" default:":8081" help:"Address of health, readiness and metrics; not for the public."`
	StallTimeout     time.Duration `env:"SERVICE_STALL_TIMEOUT" default:"60s" help:"How long a client may make no progress while it sends or takes a body."`
	MinRate          int64         `name:"min-transfer-rate" env:"SERVICE_MIN_TRANSFER_RATE" default:"1024" help:"Bytes a second that a client must reach over SERVICE_STALL_TIMEOUT, sending or taking; 0 = any progress is enough."`
	CORSOrigins      []string      `name:"cors-origins" env:"SERVICE_CORS_ORIGINS" help:"Web origins whose pages may call the service: https://app.example.org, https://*.example.org, or * for all. Files may be read from anywhere in any case."`
	AnonymousTimeout time.Duration `name:"anonymous-body-timeout" env:"SERVICE_ANONYMOUS_BODY_TIMEOUT" default:"10s" help:"How long the whole body of a request without a credential may take, such as one of a login; 0 = as long as any."`
	MaxConnections   int           `env:"SERVICE_MAX_CONNECTIONS" default:"4096" help:"Connections of clients that are open at once; 0 = as many as the limit of file descriptors leaves room for, which bounds them in any case."`
	MaxPerAddress    int           `name:"max-connections-per-ip" env:"SERVICE_MAX_CONNECTIONS_PER_IP" default:"512" help:"How many of them one client address (IPv6: one /64) may have, SERVICE_TRUSTED_PROXIES excepted; 0 = all."`
	DiscardLimit     int64         `env:"SERVICE_DISCARD_LIMIT" default:"16777216" help:"Bytes of a rejected request's body that are read and dropped after the answer, for clients that read it only after they have sent everything."`
	DiscardTimeout   time.Duration `env:"SERVICE_DISCARD_TIMEOUT" default:"10s" help:"How long that may take."`
	DrainDelay       time.Duration `env:"SERVICE_DRAIN_DELAY" default:"0s" help:"How long to go on serving, not ready, after SIGTERM."`
	ShutdownTimeout  time.Duration `env:"SERVICE_SHUTDOWN_TIMEOUT" default:"60s" help:"How long running requests may take to end after that."`
}

var brandForm = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// Validate checks the bounds.
func (c Config) Validate() error {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" ||
		strings.Trim(base.Path, "/") != "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return fmt.Errorf("SERVICE_BASE_URL must look like https://host[:port], without a path, not %q", c.BaseURL)
	}
	switch {
	case !brandForm.MatchString(c.Brand):
		return fmt.Errorf("SERVICE_BRAND must be 1 to 32 of a-z, 0-9 and -, not %q", c.Brand)
	case c.StallTimeout < time.Second:
		return fmt.Errorf("SERVICE_STALL_TIMEOUT must be at least 1s, not %s", c.StallTimeout)
	case c.MinRate < 0:
		return fmt.Errorf("SERVICE_MIN_TRANSFER_RATE must not be negative, but is %d", c.MinRate)
	case c.AnonymousTimeout < 0:
		return fmt.Errorf("SERVICE_ANONYMOUS_BODY_TIMEOUT must not be negative, but is %s", c.AnonymousTimeout)
	case c.MaxConnections < 0 || c.MaxConnections > 0 && c.MaxConnections < minConnections:
		return fmt.Errorf("SERVICE_MAX_CONNECTIONS must be 0, or at least %d, not %d", minConnections, c.MaxConnections)
	case c.MaxPerAddress < 0:
		return fmt.Errorf("SERVICE_MAX_CONNECTIONS_PER_IP must not be negative, but is %d", c.MaxPerAddress)
	case c.DiscardLimit < 0 || c.DiscardLimit > maxDiscardLimit:
		return fmt.Errorf("SERVICE_DISCARD_LIMIT must be from 0 to %d, not %d", maxDiscardLimit, c.DiscardLimit)
	case c.DiscardTimeout < 0 || c.DiscardTimeout > maxDiscardTimeout:
		return fmt.Errorf("SERVICE_DISCARD_TIMEOUT must be from 0s to %s, not %s", maxDiscardTimeout, c.DiscardTimeout)
	case c.DrainDelay < 0:
		return fmt.Errorf("SERVICE_DRAIN_DELAY must not be negative, but is %s", c.DrainDelay)
	case c.ShutdownTimeout < 0:
		return fmt.Errorf("SERVICE_SHUTDOWN_TIMEOUT must not be negative, but is %s", c.ShutdownTimeout)
	}
	_, err = newOrigins(c, nil, nil)
	return err
}

// Limits of the HTTP servers.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10

	maxDiscardLimit   = 1 << 30 // bytes
	maxDiscardTimeout = time.Minute

	// Those of the admin server: its answers are short and never wait for anybody.
	adminTimeout        = 10 * time.Second
	maxAdminConnections = 64
)

// Server is both servers. Listen, then Run.
type Server struct {
	cfg      Config
	log      *slog.Logger
	checks   []Check
	draining atomic.Bool

	limits      *limit.Limiter
	connections *connectionMetrics

	public, admin   *http.Server
	publicAt, admAt *listener
}

// New composes the servers: mounts add the public routes, which answer as often as
// limits allow (nil = always).
func New(cfg Config, log *slog.Logger, registry *prometheus.Registry, limits *limit.Limiter, checks []Check, mounts ...func(chi.Router)) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: log, checks: checks, limits: limits, connections: newConnectionMetrics(registry)}
	handler, err := Handler(cfg, log, newMetrics(registry), limits, mounts...)
	if err != nil {
		return nil, err
	}
	s.public = s.httpServer(handler)
	s.admin = s.httpServer(guarded(cfg, s.adminHandler(registry)))
	s.admin.ReadTimeout, s.admin.WriteTimeout = adminTimeout, adminTimeout
	return s, nil
}

// httpServer makes a server of HTTP/1 alone: the deadlines of bodies and the bounds of
// connections are made for it. HTTP/2 ends at the proxy in front.
func (s *Server) httpServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Protocols:         protocols,
		ConnContext:       withConnection,
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// What net/http itself has to say is about connections: of no use to an operator.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Listen takes the ports, so that a port in use shows at once.
func (s *Server) Listen(ctx context.Context) error {
	descriptors, err := descriptorLimit()
	if err != nil {
		return err
	}
	allowed, reduced := maxConnections(s.cfg.MaxConnections, descriptors)
	if reduced {
		s.log.WarnContext(ctx, "fewer connections are allowed than SERVICE_MAX_CONNECTIONS: the limit of file descriptors is low", "allowed", allowed, "descriptors", descriptors)
	}
	if s.publicAt, err = s.listen(ctx, s.public, s.cfg.Listen, allowed, s.cfg.MaxPerAddress, s.connections); err != nil {
		return fmt.Errorf("listen on SERVICE_LISTEN %s: %w", s.cfg.Listen, err)
	}
	if s.admAt, err = s.listen(ctx, s.admin, s.cfg.AdminListen, maxAdminConnections, 0, nil); err != nil {
		_ = s.publicAt.Close()
		return fmt.Errorf("listen on SERVICE_ADMIN_LISTEN %s: %w", s.cfg.AdminListen, err)
	}
	return nil
}

// listen takes a server's port.
func (s *Server) listen(ctx context.Context, server *http.Server, address string, maximum, perAddress int, m *connectionMetrics) (*listener, error) {
	var network net.ListenConfig
	at, err := network.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	bounded := newListener(at.(*net.TCPListener), maximum, perAddress, s.limits.TrustsProxy, m, s.log) //nolint:forcetypeassert // of the network "tcp"
	server.ConnState = bounded.observe
	return bounded, nil
}

// Addr is where the public server listens; AdminAddr the other one.
func (s *Server) Addr() string { return s.publicAt.Addr().String() }

// AdminAddr is where the admin server listens.
func (s *Server) AdminAddr() string { return s.admAt.Addr().String() }

// Run serves until ctx ends. Then it is not ready, waits for DrainDelay, takes no new
// connections, and lets running requests end for ShutdownTimeout.
func (s *Server) Run(ctx context.Context) error {
	s.log.InfoContext(ctx, "serving", "address", s.Addr(), "admin", s.AdminAddr(), "base_url", s.cfg.BaseURL)
	group, failed := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(s.public, s.publicAt) })
	group.Go(func() error { return serve(s.admin, s.admAt) })
	group.Go(func() error {
		<-failed.Done()
		return s.shutDown(context.WithoutCancel(ctx))
	})
	return group.Wait()
}

func serve(server *http.Server, at net.Listener) error {
	if err := server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", at.Addr(), err)
	}
	return nil
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
		s.log.WarnContext(ctx, "requests were cut off", "after", s.cfg.ShutdownTimeout)
		err = s.public.Close()
	}
	// The admin server answers to the end, that probes see "not ready" and not "dead".
	return errors.Join(err, s.admin.Close())
}
