package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/objectmetrics"
	"mediastack.dev/controllers/reconcile"
)

const (
	// The API server is tried again after pauses that grow from the first to the second.
	minAPIPause = 100 * time.Millisecond
	maxAPIPause = time.Second
	// apiTimeout bounds one try.
	apiTimeout = 5 * time.Second
	// waitLogInterval is the interval of log lines that say what the operator waits for.
	waitLogInterval = 30 * time.Second

	// A manager that ended is followed by another one after a pause, which grows from the first to the
	// second while managers end within steadyAfter.
	minRestartPause = 200 * time.Millisecond
	maxRestartPause = 5 * time.Second
	steadyAfter     = time.Minute

	// drainTimeout bounds how long the reconciles of a manager that lost the lease may take to end.
	drainTimeout = 30 * time.Second
	// headerTimeout bounds how long a client of the health server may take for the header.
	headerTimeout = 10 * time.Second
	// shutdownTimeout bounds how long the health server waits for its clients when the process ends.
	shutdownTimeout = 5 * time.Second
)

// Run runs the operator until ctx ends. It waits for the API server, and runs one manager after another:
// a manager cannot continue after it lost the lease, and the informers of one that was cut off from the
// API server for long would find out up to a minute late that it is back. Nothing of this ends the
// process, since the kubelet delays the start of a container that has ended several times by up to 5
// minutes. The servers of health and metrics are those of the process.
func Run(ctx context.Context, kube *rest.Config, cfg Config, deps Deps, registry prometheus.Registerer) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	p := &process{kube: rest.CopyConfig(kube), config: cfg, deps: deps, registry: registry, reach: newReach(time.Now)}
	p.kube.Wrap(p.reach.Transport)
	p.config.HealthListen, p.config.MetricsListen = "0", "0" // of the managers
	p.waitsFor.Store(new(errors.New("the operator starts")))
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(serving)
	servers, err := p.servers(serving, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(serving, cancel)() // a server that fails ends the operator
	if p.config.LeaderElect {
		if p.lease, err = newLease(ctx, p.kube, p.config.leaseNamespace()); err != nil {
			return err
		}
	}
	for _, server := range servers {
		group.Go(func() error { return server.Start(serving) })
	}
	group.Go(func() error { defer stop(); return p.run(ctx) })
	return group.Wait()
}

// process runs managers one after another.
type process struct {
	kube     *rest.Config
	config   Config
	deps     Deps
	registry prometheus.Registerer
	reach    *reach
	lease    *lease // nil without leader election

	current  atomic.Pointer[instance] // nil while none runs
	waitsFor atomic.Pointer[error]    // what the process waits for while none runs
}

// servers returns those of health and metrics.
func (p *process) servers(ctx context.Context, cfg Config) (all []manager.Runnable, err error) {
	if cfg.HealthListen != "" && cfg.HealthListen != "0" {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.HealthListen)
		if err != nil {
			return nil, fmt.Errorf("listen for the probes: %w", err)
		}
		all = append(all, &manager.Server{Name: "health probe", Server: &http.Server{Handler: p.health(), ReadHeaderTimeout: headerTimeout}, Listener: listener, ShutdownTimeout: new(shutdownTimeout)})
	}
	metrics, err := metricsServers(p.kube, cfg, p.registry)
	return append(all, metrics...), err
}

// health answers /healthz always, and /readyz with the checks of the manager that runs.
func (p *process) health() http.Handler {
	ready := map[string]healthz.Checker{}
	for _, name := range checkNames {
		ready[name] = func(request *http.Request) error {
			if now := p.current.Load(); now != nil {
				return now.checks[name](request)
			}
			return *p.waitsFor.Load()
		}
	}
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return mux
}

// run runs managers until ctx ends, or one ends with an error that another one would have, too.
func (p *process) run(ctx context.Context) error {
	pause := minRestartPause
	for {
		if err := p.awaitAPI(ctx); err != nil {
			return ignoreEnd(ctx, err)
		}
		began := time.Now()
		reason, err := p.manage(ctx)
		switch {
		case reason == "":
			return err
		case ctx.Err() != nil:
			return nil
		}
		p.deps.Log.WarnContext(ctx, "the operator starts again in this process", "reason", reason)
		p.waitsFor.Store(new(errors.New("the operator starts again: " + reason)))
		if time.Since(began) >= steadyAfter {
			pause = minRestartPause
		}
		if sleep(ctx, reconcile.Jitter(pause)) != nil {
			return nil
		}
		pause = min(2*pause, maxRestartPause)
	}
}

// awaitAPI returns when the API server is ready, or ctx has ended. One that starts does not know all kinds
// yet, nor who may do what.
func (p *process) awaitAPI(ctx context.Context) error {
	client, err := rest.HTTPClientFor(p.kube)
	if err != nil {
		return err
	}
	base, _, err := rest.DefaultServerUrlFor(p.kube)
	if err != nil {
		return err
	}
	log := waitLog{log: p.deps.Log, host: base.Host}
	for pause := minAPIPause; ; pause = min(2*pause, maxAPIPause) {
		err := tryAPI(ctx, client, base)
		if err == nil {
			log.end(ctx)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log.waits(ctx, err)
		p.waitsFor.Store(new(fmt.Errorf("the operator waits for the Kubernetes API server: %w", err)))
		if err := sleep(ctx, reconcile.Jitter(pause)); err != nil {
			return err
		}
	}
}

// tryAPI returns an error while the API server is not ready. Where it denies to say so, also because it
// does not know its roles yet, it is ready when it permits what every operator may do. It serves its own resources by then, and custom ones
// some seconds later: meanwhile it does not answer. Whether it has the custom resources is for the manager to say.
func tryAPI(ctx context.Context, client *http.Client, base *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	status, err := get(ctx, client, base.JoinPath("readyz"))
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		_, err = get(ctx, client, base.JoinPath("api/v1/namespaces", metav1.NamespaceSystem))
	}
	if err != nil {
		return err
	}
	status, err = get(ctx, client, base.JoinPath("apis", v1alpha1.GroupVersion.String()))
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		return nil
	}
	return err
}

// get returns the status of the answer, and an error unless it is 200.
func get(ctx context.Context, client *http.Client, address *url.URL) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, fmt.Errorf("GET %s: %s", address, response.Status)
	}
	return http.StatusOK, nil
}

// waitLog logs what the process waits for: at once, when the error changes, and every waitLogInterval.
type waitLog struct {
	log         *slog.Logger
	host        string
	began, last time.Time
	text        string
}

func (l *waitLog) waits(ctx context.Context, err error) {
	now := time.Now()
	if l.began.IsZero() {
		l.began = now
	}
	if err.Error() == l.text && now.Sub(l.last) < waitLogInterval {
		return
	}
	l.last, l.text = now, err.Error()
	l.log.WarnContext(ctx, "waiting for the Kubernetes API server", "host", l.host, "error", err, "waited", now.Sub(l.began).Round(time.Second).String())
}

func (l *waitLog) end(ctx context.Context) {
	if !l.began.IsZero() {
		l.log.InfoContext(ctx, "the Kubernetes API server answers", "host", l.host, "waited", time.Since(l.began).Round(time.Second).String())
	}
}

// manage runs one manager until it ends. The reason is empty if no other one may follow.
func (p *process) manage(ctx context.Context) (reason string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := p.reach.begin()
	one, err := build(ctx, p.kube, p.config, p.deps, p.lease)
	if err != nil {
		return p.reason(nil, err), err
	}
	objects := objectmetrics.New(one.GetCache(), one.Elected(), p.deps.Now, p.deps.Log)
	if err := p.registry.Register(objects); err != nil {
		return "", err
	}
	defer p.registry.Unregister(objects)
	absent := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-back:
			close(absent)
			cancel()
		case <-ctx.Done():
		}
	})
	p.current.Store(one)
	err = one.Start(ctx)
	p.waitsFor.Store(new(errors.New("the operator starts again")))
	p.current.Store(nil)
	cancel()
	watching.Wait()
	if ended := errors.Join(one.end(), resetQueueDepths()); ended != nil {
		return "", errors.Join(err, ended)
	}
	select {
	case <-absent:
		return "the Kubernetes API server is back after an absence", err
	default:
		return p.reason(one, err), err
	}
}

// reason returns why another manager may follow one that ended with an error; empty if it may not.
func (p *process) reason(ended *instance, err error) string {
	away := p.reach.away()
	switch {
	case err == nil:
		return ""
	case strings.Contains(err.Error(), "leader election lost"): // the manager has no error of this kind
		return "the lease was lost: it could not be renewed in time"
	case ended != nil && ended.verifier.Replaced():
		return err.Error()
	case away != nil:
		return "the Kubernetes API server is away: " + away.Error()
	case errors.As(err, new(*url.Error)):
		return err.Error()
	}
	return ""
}

// ignoreEnd returns nil for what ended with ctx.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// sleep returns after a pause, or when ctx has ended.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
