// Package tenant is the part of the zero-loss test (hack/test/zeroloss) that runs in pods: a correct
// client of the service that uploads, seals, lists, fetches, deletes and calls tools at a rate, keeps what
// was acknowledged, and compares it with what the service has.
package tenant

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Config is what a client needs. In a pod it comes from the Secret of the account.
type Config struct {
	BaseURL   string        `required:"" env:"TENANT_BASE_URL" help:"URL of the service."`
	MCPURL    string        `required:"" env:"TENANT_MCP_URL" help:"URL of the service's MCP endpoint."`
	Key       string        `required:"" env:"TENANT_API_KEY" help:"API key of the account; nobody else may use the account."`
	Authority string        `env:"TENANT_AUTHORITY" help:"Certificate (PEM) of the authority of the service's certificate; by default those of the system."`
	Rate      float64       `default:"25" env:"TENANT_RATE" help:"Requests per second, without retries."`
	Listen    string        `default:":8090" help:"Address that the test asks for results at."`
	Connect   time.Duration `default:"2s" help:"How long an attempt to connect may take."`
	Retry     time.Duration `default:"1s" help:"Pause before a request is sent again after a connection failed."`
	Wait      time.Duration `default:"90s" help:"How long one request may take with its retry and what Retry-After asks for."`
}

const (
	// maxStories bounds the stories that run at a time; requests wait for an outage to end, and new ones come.
	maxStories = 4000
	// requestTimeout is for one attempt, with the file.
	requestTimeout = 60 * time.Second
	shutdownGrace  = 5 * time.Second
)

// Tenant is a running client.
type Tenant struct {
	config  Config
	kept    *http.Client // keeps connections
	fresh   *http.Client // connects for each request
	limiter *rate.Limiter
	ledger  *ledger

	stop    context.CancelFunc // ends the load
	stories sync.WaitGroup
}

func newTenant(config Config) *Tenant {
	dialer := net.Dialer{Timeout: config.Connect}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}
	if config.Authority != "" {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM([]byte(config.Authority))
		transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	}
	fresh := transport.Clone()
	fresh.DisableKeepAlives = true
	return &Tenant{
		config: config, ledger: newLedger(),
		kept: &http.Client{Transport: transport, Timeout: requestTimeout}, fresh: &http.Client{Transport: fresh, Timeout: requestTimeout},
		limiter: rate.NewLimiter(rate.Limit(config.Rate), 1+int(config.Rate/5)),
	}
}

// Run serves results and creates load until ctx ends.
func Run(ctx context.Context, config Config) error {
	t := newTenant(config)
	load, stop := context.WithCancel(ctx)
	defer stop()
	t.stop = stop
	server := &http.Server{Addr: config.Listen, Handler: t.handler(), ReadHeaderTimeout: requestTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	t.stories.Go(func() { t.load(load) })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		stop()
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		return errors.Join(server.Shutdown(leave))
	}
}

// load begins stories, so that the rate of all requests is the configured one: the first request of a
// story waits for its turn, and the others make the next story wait.
func (t *Tenant) load(ctx context.Context) {
	slots := make(chan struct{}, maxStories)
	for t.limiter.Wait(ctx) == nil {
		select {
		case slots <- struct{}{}:
		default:
			continue // an outage has lasted for minutes
		}
		t.stories.Go(func() {
			defer func() { <-slots }()
			// A story that has begun ends, also when the load does.
			draw().begin(context.WithoutCancel(ctx), t)
		})
	}
}
