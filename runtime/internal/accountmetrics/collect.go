package accountmetrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Descriptions of the metrics.
var (
	labels       = []string{"account", "account_namespace", "account_name"}
	requestsDesc = prometheus.NewDesc("mediastack_account_requests_total",
		"Requests of an account, with its credentials and for its files, by class: `2xx`, `3xx`, `4xx`, `5xx`.",
		append([]string{"class"}, labels...), nil)
	errorsDesc = prometheus.NewDesc("mediastack_account_errors_total",
		"Requests of an account that the service failed: `5xx`, and tool calls, whose status is 200.", labels, nil)
	bytesDesc = prometheus.NewDesc("mediastack_account_body_bytes_total",
		"Bytes of bodies read (`in`) and written (`out`) for an account. Files that the object store sends itself do not count.", append([]string{"direction"}, labels...), nil)
)

var classNames = [classes]string{"2xx", "3xx", "4xx", "5xx"}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{requestsDesc, errorsDesc, bytesDesc} {
		descriptions <- desc
	}
}

// Collect implements prometheus.Collector. It reviews the members if that is due.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.reviewing.Lock()
	defer m.reviewing.Unlock()
	m.review(m.now())
	m.entries.Range(func(_, value any) bool {
		if e := value.(*entry); e.member.Load() || e.leaving { //nolint:forcetypeassert // the map has no other type
			e.series.collect(metrics, e.account.ID.String(), e.account.Namespace, e.account.Name)
		}
		return true
	})
	m.other.collect(metrics, "other", "", "")
	if !m.formerAt.IsZero() {
		m.former.collect(metrics, "former-"+strconv.FormatInt(m.formerAt.Unix(), 10), "", "")
	}
}

func (c *counts) collect(metrics chan<- prometheus.Metric, account ...string) {
	counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	for i, class := range classNames {
		counter(requestsDesc, c.classes[i].Load(), append([]string{class}, account...)...)
	}
	counter(errorsDesc, c.errors.Load(), account...)
	counter(bytesDesc, c.in.Load(), append([]string{"in"}, account...)...)
	counter(bytesDesc, c.out.Load(), append([]string{"out"}, account...)...)
}
