package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// counters are the work that was done since the start of the servers.
type counters struct {
	at   time.Time
	took time.Duration // of a difference
	// requests to the API server by verb and resource
	api map[string]float64
	// queries of the operator's role by their text
	queries            map[string]query
	statements, writes float64
	transactions       float64
	s3                 float64
	cpu                usage
}

// query is how often a statement ran, and how many records it added to the WAL.
type query struct{ calls, wal float64 }

func (c *cluster) counters(ctx context.Context) (counters, error) {
	read := counters{at: time.Now(), s3: float64(c.proxy.requests.Load()), queries: map[string]query{}}
	var err error
	if read.api, err = c.apiRequests(ctx); err != nil {
		return counters{}, err
	}
	rows, err := c.sql.Query(ctx, `SELECT query, sum(calls)::float8, sum(wal_records)::float8 FROM pg_stat_statements JOIN pg_roles ON pg_roles.oid = userid WHERE rolname = $1 GROUP BY query`, operatorRole)
	if err != nil {
		return counters{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		var one query
		if err := rows.Scan(&text, &one.calls, &one.wal); err != nil {
			return counters{}, err
		}
		read.queries[text] = one
	}
	if err := rows.Err(); err != nil {
		return counters{}, err
	}
	// Its xmax is the next id: reading it takes none.
	if err := c.sql.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8").Scan(&read.transactions); err != nil {
		return counters{}, err
	}
	read.cpu, err = c.b.env.cpu()
	return read, err
}

// since returns what was done after before.
func (n counters) since(before counters) counters {
	done := counters{took: n.at.Sub(before.at), api: map[string]float64{}, queries: map[string]query{}, s3: n.s3 - before.s3,
		transactions: n.transactions - before.transactions, cpu: n.cpu.since(before.cpu)}
	for name, value := range n.api {
		if value > before.api[name] {
			done.api[name] = value - before.api[name]
		}
	}
	for text, now := range n.queries {
		one := query{calls: now.calls - before.queries[text].calls, wal: now.wal - before.queries[text].wal}
		if one.calls <= 0 {
			continue
		}
		done.queries[text] = one
		done.statements += one.calls
		if one.wal > 0 {
			done.writes += one.calls
		}
	}
	return done
}

// apiWrites is how many writes there were but those of the leader election.
func (n counters) apiWrites() float64 {
	sum := 0.0
	for name, value := range n.api {
		if isWrite(name) {
			sum += value
		}
	}
	return sum
}

// isWrite reports whether a request writes, and not for the leader election: Leases, and the core events
// of it. Events about MediaAccounts are of the group events.k8s.io.
func isWrite(name string) bool {
	verb, resource, _ := strings.Cut(name, " ")
	return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, verb) &&
		resource != "leases.coordination.k8s.io" && resource != "events"
}

// apiRequests reads the API server's own count of requests, by verb and resource.
func (c *cluster) apiRequests(ctx context.Context) (map[string]float64, error) {
	text, err := readPage(ctx, c.metrics, c.kube.Config.Host+"/metrics")
	if err != nil {
		return nil, err
	}
	families, err := parseMetrics(text)
	if err != nil {
		return nil, err
	}
	requests := map[string]float64{}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := labelsOf(metric)
		name := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			name += "/" + labels["subresource"]
		}
		if labels["group"] != "" {
			name += "." + labels["group"]
		}
		if labels["resource"] != "" {
			requests[name] += metric.GetCounter().GetValue()
		}
	}
	if len(requests) == 0 {
		return nil, errors.New("the API server does not count its requests as apiserver_request_total")
	}
	return requests, nil
}

func parseMetrics(text string) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, label := range metric.GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	return labels
}

// settleTimeout bounds the wait for an operator that always has something to do: it is measured as it is.
const settleTimeout = time.Minute

// settle waits until the operator has no work in its queues and has written nothing for a while.
func (c *cluster) settle(ctx context.Context) error {
	deadline := time.Now().Add(settleTimeout)
	var last map[string]float64
	for quietSince := time.Now(); time.Since(quietSince) < c.b.quiet && time.Now().Before(deadline); {
		writes, err := c.apiRequests(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(writes, func(name string, _ float64) bool { return !isWrite(name) })
		busy, err := c.busy(ctx)
		if err != nil {
			return err
		}
		if busy || !maps.Equal(writes, last) {
			quietSince, last = time.Now(), writes
		}
		if err := wait(c.b.quiet / 10)(ctx); err != nil {
			return err
		}
	}
	return nil
}

// busy reports whether objects wait in the operator's queues. Those that wait for their time do not count.
func (c *cluster) busy(ctx context.Context) (bool, error) {
	text, err := c.scrape(ctx, "/metrics")
	if err != nil {
		return false, err
	}
	families, err := parseMetrics(text)
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

// noteCosts prints what each account cost since before.
func (c *cluster) noteCosts(ctx context.Context, before counters, accounts int) error {
	after, err := c.counters(ctx)
	if err != nil {
		return err
	}
	used, each := after.since(before), 1/float64(accounts)
	c.b.note("creation of %d accounts: %s API writes (%s by the client), %s SQL statements, %s of them wrote, %s transaction ids, and %s S3 requests each", accounts,
		number(used.apiWrites()*each), number(2), number(used.statements*each), number(used.writes*each), number(used.transactions*each), number(used.s3*each))
	c.noteTop(used, each, "for each")
	return nil
}

// noteTop prints the most frequent API requests and SQL statements of a difference.
func (c *cluster) noteTop(used counters, scale float64, unit string) {
	const most = 25
	for _, list := range []struct {
		what  string
		of    map[string]float64
		limit int
	}{{"API requests", used.api, most}, {"SQL statements", callsOf(used.queries), most}} {
		names := slices.SortedFunc(maps.Keys(list.of), func(a, b string) int { return cmp.Or(cmp.Compare(list.of[b], list.of[a]), cmp.Compare(a, b)) })
		for _, name := range names[:min(len(names), list.limit)] {
			if per := list.of[name] * scale; per >= 0.005 {
				c.b.say("%s: %s %s %s: %s", c.b.name, number(per), list.what, unit, shortQuery(name))
			}
		}
	}
}

func callsOf(queries map[string]query) map[string]float64 {
	calls := map[string]float64{}
	for text, one := range queries {
		calls[text] = one.calls
	}
	return calls
}

// shortQuery is the name that the generated queries begin with, or the first words.
func shortQuery(text string) string {
	if name, ok := strings.CutPrefix(text, "-- name: "); ok {
		name, _, _ = strings.Cut(name, " ")
		return name
	}
	return fmt.Sprintf("%.90s", strings.Join(strings.Fields(text), " "))
}
