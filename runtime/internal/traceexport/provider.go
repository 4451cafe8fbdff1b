// Package traceexport exports the traces of a program to an OpenTelemetry collector
// (docs/decisions/0020). serve and purge make a Provider, which begins traces; package tracing adds
// spans to them. The operator does not link it.
package traceexport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/tracing"
)

// Config configures what the standard variables OTEL_* do not. The tags are flag and environment
// names.
type Config struct {
	FlushTimeout time.Duration `name:"trace-flush-timeout" env:"SERVICE_TRACE_FLUSH_TIMEOUT" default:"5s" help:"How long the end of the process may wait for the export of the last traces, from 0s to 1m. Traces are exported if OTEL_EXPORTER_OTLP_ENDPOINT is set."`
}

const maxFlushTimeout = time.Minute

// Validate checks the bounds, and the standard variables.
func (c Config) Validate() error {
	if c.FlushTimeout < 0 || c.FlushTimeout > maxFlushTimeout {
		return fmt.Errorf("SERVICE_TRACE_FLUSH_TIMEOUT must be from 0s to %s, not %s", maxFlushTimeout, c.FlushTimeout)
	}
	_, err := readEnvironment(os.Getenv)
	return err
}

// Deps are what a Provider uses.
type Deps struct {
	// Service and Version name the program in the traces. OTEL_SERVICE_NAME and
	// OTEL_RESOURCE_ATTRIBUTES replace them.
	Service, Version string
	// Registry takes the metrics; nil = none.
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Provider exports traces.
type Provider struct {
	cfg   Config
	log   *slog.Logger
	queue *queue
	sdk   *sdk.TracerProvider // nil without an endpoint
}

// New returns a Provider. It exports if the environment names an endpoint; it does not connect.
func New(ctx context.Context, cfg Config, deps Deps) (*Provider, error) {
	p := &Provider{cfg: cfg, log: deps.Log}
	found, err := readEnvironment(os.Getenv)
	if err != nil || !found.enabled {
		return p, err
	}
	// The SDK has no other place for these. What it reports is a mistake of this package.
	otel.SetLogger(logr.FromSlogHandler(deps.Log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { deps.Log.WarnContext(ctx, "the tracing library reports an error", "error", err) }))

	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", deps.Service), attribute.String("service.version", deps.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otlp, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	if p.queue, err = newQueue(found.queueSize, deps.Registry); err != nil {
		return nil, err
	}
	batches := sdk.NewBatchSpanProcessor(&exporter{SpanExporter: otlp, queue: p.queue, log: deps.Log},
		sdk.WithMaxQueueSize(found.queueSize), sdk.WithMaxExportBatchSize(found.batchSize))
	p.sdk = sdk.NewTracerProvider(sdk.WithResource(described), sdk.WithSpanProcessor(processor{batches, p.queue}))
	return p, nil
}

// Enabled reports whether traces are exported.
func (p *Provider) Enabled() bool { return p.sdk != nil }

// Tracer returns the tracer that begins traces, nil if none are exported.
func (p *Provider) Tracer() trace.Tracer {
	if p.sdk == nil {
		return nil
	}
	return p.sdk.Tracer(tracing.Scope)
}

// Begin begins a trace of what is no request.
func (p *Provider) Begin(ctx context.Context, name string) (context.Context, trace.Span) {
	if p.sdk == nil {
		return tracing.Start(ctx, name) // without effect
	}
	return p.sdk.Tracer(tracing.Scope).Start(ctx, name, trace.WithNewRoot())
}

// Close exports the spans that wait, for as long as the configuration permits.
func (p *Provider) Close(ctx context.Context) {
	if p.sdk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.FlushTimeout)
	defer cancel()
	if err := p.sdk.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		p.log.WarnContext(ctx, "closing the exporter of traces failed", "error", err)
	}
	if lost := p.queue.waiting.Load(); lost > 0 {
		p.log.WarnContext(ctx, "traces are lost at the end of the process", "spans", lost)
	}
}
