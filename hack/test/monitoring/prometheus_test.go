package monitoring_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
)

// scrapeInterval is short, so that a test takes seconds.
const scrapeInterval = time.Second

// target is a process that Prometheus scrapes.
type target struct{ address, job, pod string }

// prometheus is a Prometheus server with the alerts of the chart.
type prometheus struct {
	t       *testing.T
	address string
}

func startPrometheus(t *testing.T, targets []target) *prometheus {
	t.Helper()
	dir, p := testenv.TempDir(t), &prometheus{t: t, address: "127.0.0.1:" + strconv.Itoa(testenv.FreePort(t))}
	config := fmt.Sprintf("global: {scrape_interval: %[1]s, evaluation_interval: %[1]s}\nrule_files: [rules.yaml]\nscrape_configs:\n", scrapeInterval)
	for _, one := range targets {
		config += fmt.Sprintf("  - job_name: %s\n    honor_labels: true\n    static_configs: [{targets: [%q], labels: {namespace: %s, pod: %s}}]\n", one.job, one.address, releaseNamespace, one.pod)
	}
	must(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules(t)), 0o600))
	_, err := testenv.Group(t).Start(t.Context(), testenv.Spec{
		Name: "Prometheus", Path: testenv.Prometheus(t), LogFile: filepath.Join(dir, "prometheus.log"),
		Args:  []string{"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + p.address},
		Ready: testenv.Answers("http://" + p.address + "/-/ready"),
	})
	must(t, err)
	return p
}

// series is a time series of an answer. A range has Values, an instant Value.
type series struct {
	Metric map[string]string
	Value  sample
	Values []sample
}

// sample is a time in seconds and a value.
type sample [2]any

// api calls the API, and decodes the data of its answer.
func (p *prometheus) api(path string, query url.Values, into any) error {
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.address+"/api/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("the server answers %s: %s", response.Status, answer.Error)
	}
	return nil
}

// query runs a query at present.
func (p *prometheus) query(expr string) ([]series, error) {
	var answer struct{ Result []series }
	err := p.api("query", url.Values{"query": {expr}}, &answer)
	return answer.Result, err
}

// queryRange runs a query over a time.
func (p *prometheus) queryRange(expr string, from, to time.Time, step time.Duration) ([]series, error) {
	var answer struct{ Result []series }
	err := p.api("query_range", url.Values{
		"query": {expr}, "start": {unix(from)}, "end": {unix(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}, &answer)
	return answer.Result, err
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// rule is an alert that Prometheus has loaded.
type rule struct {
	Name, Query, Health, LastError, State string
}

// rules returns the alerts.
func (p *prometheus) rules() (all []rule) {
	p.t.Helper()
	var answer struct{ Groups []struct{ Rules []rule } }
	must(p.t, p.api("rules", nil, &answer))
	for _, group := range answer.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// number returns the value of a sample.
func (s sample) number() float64 {
	text, _ := s[1].(string)
	value, _ := strconv.ParseFloat(text, 64)
	return value
}
