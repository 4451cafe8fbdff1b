package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/tracing"
)

var (
	_ pgx.QueryTracer       = tracer{}
	_ pgxpool.AcquireTracer = tracer{}
)

// tracer adds a span for each statement to the trace of a request, and one for each wait for a
// connection. A span has the name of the statement: neither its text nor its arguments.
type tracer struct{}

var databaseSystem = attribute.String("db.system.name", "postgresql")

// TraceQueryStart implements pgx.QueryTracer.
func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !tracing.Recording(ctx) {
		return ctx
	}
	name := statementName(data.SQL)
	ctx, _ = tracing.Start(ctx, "postgres "+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(databaseSystem, attribute.String("db.query.summary", name)))
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if data.Err == nil {
		span.SetAttributes(attribute.Int64("db.response.affected_rows", data.CommandTag.RowsAffected()))
	} else if !errors.Is(data.Err, pgx.ErrNoRows) {
		tracing.Fail(span, errorClass(data.Err))
	}
	span.End()
}

// minAcquireSpan is the shortest wait for a connection that gets a span.
const minAcquireSpan = time.Millisecond

type acquireStart struct{}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (tracer) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	if !tracing.Recording(ctx) {
		return ctx
	}
	return context.WithValue(ctx, acquireStart{}, time.Now())
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (tracer) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	start, traced := ctx.Value(acquireStart{}).(time.Time)
	if !traced || data.Err == nil && time.Since(start) < minAcquireSpan {
		return
	}
	_, span := tracing.Start(ctx, "postgres acquire", trace.WithTimestamp(start), trace.WithAttributes(databaseSystem))
	if data.Err != nil {
		tracing.Fail(span, errorClass(data.Err))
	}
	span.End()
}

// statementName returns the name of a statement that sqlc generated, or the first word of another
// one: the text of none is input.
func statementName(sql string) string {
	if rest, generated := strings.CutPrefix(sql, "-- name: "); generated {
		sql = rest
	}
	name, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return name
}

// errorClass returns the SQLSTATE of an error of the server, or the class of another one.
func errorClass(err error) string {
	var server *pgconn.PgError
	switch {
	case errors.As(err, &server):
		return server.Code
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case isDisconnected(err):
		return "connection"
	}
	return "other"
}
