package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// measuredTracer is tracer, and measures each statement.
type measuredTracer struct {
	tracer
	duration prometheus.Histogram
}

func newMeasuredTracer() measuredTracer {
	return measuredTracer{duration: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "mediastack_database_statement_duration_seconds", Help: "Time of a statement, with the reading of its rows, without the wait for a connection.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})}
}

type statementStart struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (t measuredTracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(t.tracer.TraceQueryStart(ctx, conn, data), statementStart{}, time.Now())
}

// TraceQueryEnd implements pgx.QueryTracer.
func (t measuredTracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	if start, ok := ctx.Value(statementStart{}).(time.Time); ok {
		t.duration.Observe(time.Since(start).Seconds())
	}
	t.tracer.TraceQueryEnd(ctx, conn, data)
}
