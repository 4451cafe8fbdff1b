package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// poolCounters count what the pool itself does not.
type poolCounters struct {
	// opened are the connections that were made. The pool counts attempts, so an outage looks like many connections.
	opened             atomic.Int64
	retries, exhausted atomic.Int64
}

// install counts the connections of a pool that is opened with cfg.
func (p *poolCounters) install(cfg *pgxpool.Config) {
	next := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		p.opened.Add(1)
		return next(ctx, conn)
	}
}

// observe counts an error of a statement, unless an inner retry has counted it.
func (p *poolCounters) observe(err error) {
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == tooManyConnections && !errors.As(err, new(exhaustedError)) {
		p.exhausted.Add(1)
	}
}

// Register registers the metrics of the pool, of the statements and of the wait for caches.
func (s *Store) Register(registry prometheus.Registerer) error {
	for _, collector := range []prometheus.Collector{poolCollector{s.pool, &s.db.counters}, s.statements.duration, s.caches.duration, s.caches.removed} {
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// RegisterUploads registers the metrics of the batches of uploads, and of what ends to make room, which the operator does not have.
func (s *Store) RegisterUploads(registry prometheus.Registerer) error {
	return errors.Join(registry.Register(s.batches.waiting), registry.Register(s.batches.size), registry.Register(s.evicted))
}

// Values of the label for: what needed the room of a rendition.
const (
	forUpload    = "upload"
	forRendition = "rendition"
)

func newEvicted() *prometheus.CounterVec {
	evicted := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mediastack_rendition_evictions_total",
		Help: "Renditions that ended because their room under the storage cap was needed: for an `upload`, for another `rendition`."}, []string{"for"})
	for _, value := range []string{forUpload, forRendition} {
		evicted.WithLabelValues(value) // exported from the start, for rates
	}
	return evicted
}

// Descriptions of the metrics of the pool.
var (
	connectionsDesc = prometheus.NewDesc("mediastack_database_connections",
		"Connections of the pool by state: `in_use` by a statement or a transaction, `idle`, `connecting`.", []string{"state"}, nil)
	maxConnectionsDesc = prometheus.NewDesc("mediastack_database_connections_max",
		"Connections that the pool may have (`SERVICE_DATABASE_MAX_CONNS`).", nil, nil)
	openedDesc = prometheus.NewDesc("mediastack_database_connections_opened_total",
		"Connections that the pool opened. Attempts that failed do not count.", nil, nil)
	acquiresDesc = prometheus.NewDesc("mediastack_database_acquires_total",
		"Connections that statements and transactions took from the pool.", nil, nil)
	waitsDesc = prometheus.NewDesc("mediastack_database_acquire_waits_total",
		"Acquires that waited, for another one to end or for a new connection.", nil, nil)
	waitSecondsDesc = prometheus.NewDesc("mediastack_database_acquire_wait_seconds_total",
		"Time that acquires waited.", nil, nil)
	canceledDesc = prometheus.NewDesc("mediastack_database_acquires_canceled_total",
		"Acquires that ended without a connection.", nil, nil)
	retriesDesc = prometheus.NewDesc("mediastack_database_retries_total",
		"Statements that were repeated after the connection was lost.", nil, nil)
	exhaustedDesc = prometheus.NewDesc("mediastack_database_exhausted_total",
		"Attempts that failed because PostgreSQL had no connection left (53300).", nil, nil)
)

// poolCollector exports the state of a pool.
type poolCollector struct {
	pool     *pgxpool.Pool
	counters *poolCounters
}

// Describe implements prometheus.Collector.
func (c poolCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{connectionsDesc, maxConnectionsDesc, openedDesc, acquiresDesc, waitsDesc, waitSecondsDesc, canceledDesc, retriesDesc, exhaustedDesc} {
		descriptions <- desc
	}
}

// Collect implements prometheus.Collector.
func (c poolCollector) Collect(metrics chan<- prometheus.Metric) {
	stat := c.pool.Stat()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	counter := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value)
	}
	gauge(connectionsDesc, float64(stat.AcquiredConns()), "in_use")
	gauge(connectionsDesc, float64(stat.IdleConns()), "idle")
	gauge(connectionsDesc, float64(stat.ConstructingConns()), "connecting")
	gauge(maxConnectionsDesc, float64(stat.MaxConns()))
	counter(openedDesc, float64(c.counters.opened.Load()))
	counter(acquiresDesc, float64(stat.AcquireCount()))
	counter(waitsDesc, float64(stat.EmptyAcquireCount()))
	counter(waitSecondsDesc, stat.EmptyAcquireWaitTime().Seconds())
	counter(canceledDesc, float64(stat.CanceledAcquireCount()))
	counter(retriesDesc, float64(c.counters.retries.Load()))
	counter(exhaustedDesc, float64(c.counters.exhausted.Load()))
}

// batchMetrics are the metrics of the batches of all accounts.
type batchMetrics struct {
	waiting *prometheus.GaugeVec
	size    *prometheus.HistogramVec
}

func newBatchMetrics() batchMetrics {
	return batchMetrics{
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mediastack_upload_batch_waiting", Help: "Uploads that wait for their statement, which is sent for several uploads: `commit_stored` makes drafts of small files, `open` begins large uploads, `commit` makes drafts of these.",
		}, []string{"batch"}),
		size: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediastack_upload_batch_size", Help: "Uploads in one statement, which makes drafts of small files (`commit_stored`), begins large uploads (`open`) or makes drafts of these (`commit`).",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128},
		}, []string{"batch"}),
	}
}

// of returns the metrics of one kind of batch.
func (m batchMetrics) of(batch string) (waiting prometheus.Gauge, size prometheus.Observer) {
	return m.waiting.WithLabelValues(batch), m.size.WithLabelValues(batch)
}
