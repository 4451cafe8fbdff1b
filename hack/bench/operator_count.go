package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// counters are the work that was done since the start of the servers.
type counters struct {
	at                     time.Time
	writes, statements, s3 float64 // to the API server, of the operator's role, to the S3 store
	cpu                    usage
}

func (c *cluster) counters(ctx context.Context) (counters, error) {
	read := counters{at: time.Now()}
	families, err := c.admin.metrics(ctx)
	if err != nil {
		return counters{}, err
	}
	for _, metric := range families["mediastack_object_store_requests_total"].GetMetric() {
		read.s3 += metric.GetCounter().GetValue()
	}
	writes, err := c.apiWrites(ctx)
	if err != nil {
		return counters{}, err
	}
	for _, n := range writes {
		read.writes += n
	}
	if err := c.sql.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements JOIN pg_roles ON pg_roles.oid = userid WHERE rolname = $1`, operatorRole).Scan(&read.statements); err != nil {
		return counters{}, err
	}
	read.cpu, err = c.b.env.cpu()
	return read, err
}

// count counts what is done during an activity, and how long it takes.
func (c *cluster) count(ctx context.Context, activity func(context.Context) error) (counters, time.Duration, error) {
	before, err := c.counters(ctx)
	if err != nil {
		return counters{}, 0, err
	}
	if err := activity(ctx); err != nil {
		return counters{}, 0, err
	}
	after, err := c.counters(ctx)
	return counters{writes: after.writes - before.writes, statements: after.statements - before.statements, s3: after.s3 - before.s3, cpu: after.cpu.since(before.cpu)}, after.at.Sub(before.at), err
}

// apiWrites reads the API server's own count of requests that write, by verb and resource.
func (c *cluster) apiWrites(ctx context.Context) (map[string]float64, error) {
	families, err := c.apiServer.metrics(ctx)
	if err != nil {
		return nil, err
	}
	counted := families["apiserver_request_total"].GetMetric()
	if len(counted) == 0 {
		return nil, errors.New("the API server does not count its requests as apiserver_request_total")
	}
	writes := map[string]float64{}
	for _, metric := range counted {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if isWrite(labels["verb"], labels["group"], labels["resource"]) {
			writes[labels["verb"]+" "+labels["resource"]] += metric.GetCounter().GetValue()
		}
	}
	return writes, nil
}

// isWrite reports whether a request writes, and not for the leader election: Leases, and the core events
// of it. Events about MediaAccounts are of the group events.k8s.io.
func isWrite(verb, group, resource string) bool {
	return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, verb) &&
		resource != "" && resource != "leases" && (resource != "events" || group != "")
}

// metrics reads the metrics of a server.
func (e *endpoint) metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	text, err := e.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// settleTimeout bounds the wait for an operator that always has something to do: it is measured as it is.
const settleTimeout = time.Minute

// settle waits until the operator has no work in its queues and has written nothing for a while.
func (c *cluster) settle(ctx context.Context) error {
	deadline := time.Now().Add(settleTimeout)
	var last map[string]float64
	for quietSince := time.Now(); time.Since(quietSince) < quietFor && time.Now().Before(deadline); {
		writes, err := c.apiWrites(ctx)
		if err != nil {
			return err
		}
		busy, err := c.busy(ctx)
		if err != nil {
			return err
		}
		if busy || !maps.Equal(writes, last) {
			quietSince, last = time.Now(), writes
		}
		if err := wait(quietFor / 10)(ctx); err != nil {
			return err
		}
	}
	return nil
}

// busy reports whether objects wait in the operator's queues. Those that wait for their time do not count.
func (c *cluster) busy(ctx context.Context) (bool, error) {
	families, err := c.admin.metrics(ctx)
	if err != nil {
		return false, err
	}
	for _, metric := range families["workqueue_depth"].GetMetric() {
		if metric.GetGauge().GetValue() > 0 {
			return true, nil
		}
	}
	return false, nil
}
