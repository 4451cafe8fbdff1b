package monitoring_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

// panel is a panel of the dashboard.
type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig json.RawMessage
	Targets     []struct{ Expr, LegendFormat string }
}

// readDashboard returns the panels of the chart's dashboard.
func readDashboard(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "charts", "mediastack", "files", "dashboard.json"))
	must(t, err)
	var dashboard struct{ Panels []panel }
	must(t, json.Unmarshal(text, &dashboard))
	return dashboard.Panels
}

// expand replaces the variables of the dashboard.
func expand(query string, rateInterval time.Duration) string {
	return strings.NewReplacer("$namespace", releaseNamespace, "$job", ".+", "$pod", ".+", "$__rate_interval", rateInterval.String()).Replace(query)
}

// Every query of the dashboard is valid and has data during a load, and the labels by which the alerts
// select exist. The dashboard can be drawn.
func TestMonitoring_EveryQueryHasData(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.purge() // before the first scrape: what the database has is read once a minute
	p := startPrometheus(t, append(s.targets(), kubeState(t)))
	began := time.Now()
	stop := s.load()
	panels := readDashboard(t)
	for _, one := range panels {
		for _, target := range one.Targets {
			query := expand(target.Expr, 4*scrapeInterval) // as Grafana computes it
			// What the database has is read once a minute.
			wait.UntilNoneWithin(t, 3*time.Minute, func() string {
				result, err := p.query(query)
				if err != nil {
					t.Fatalf("%s: %s: %v", one.Title, query, err)
				}
				if len(result) == 0 {
					return fmt.Sprintf("%s: %s has no data", one.Title, query)
				}
				return unnamed(one.Title, target.LegendFormat, result)
			})
		}
	}
	p.checkAlerts()
	s.wait(began)
	stop()
	p.draw(panels, began, time.Now())
}

// label is a label in the format of a legend.
var label = regexp.MustCompile(`{{(\w+)}}`)

// unnamed returns which label of a legend no series has.
func unnamed(title, legend string, result []series) string {
	for _, match := range label.FindAllStringSubmatch(legend, -1) {
		if !slices.ContainsFunc(result, func(one series) bool { return one.Metric[match[1]] != "" }) {
			return fmt.Sprintf("%s: no series has the label %s", title, match[1])
		}
	}
	return ""
}

// selectors of metrics in the queries of the alerts, with their labels.
var (
	selector = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)("[^"]*")`)
)

// afterAnEvent are labels whose values a healthy stack may lack, as the status 500.
var afterAnEvent = []string{"code", "condition", "kind", "outcome", "reason", "status"}

// checkAlerts requires that Prometheus has evaluated each alert without an error, that none fires, and
// that the metrics of each exist with the labels by which it selects, if they need no event.
func (p *prometheus) checkAlerts() {
	p.t.Helper()
	all := p.rules()
	if len(all) < 25 {
		p.t.Errorf("there are %d alerts only", len(all))
	}
	for _, one := range all {
		if one.Health != "ok" || one.State == "firing" {
			p.t.Errorf("the alert %s is %s (%s): %s", one.Name, one.State, one.Health, one.LastError)
		}
		for _, match := range selector.FindAllStringSubmatch(one.Query, -1) {
			if strings.HasSuffix(match[1], "_tls_certificate_not_after_timestamp_seconds") {
				continue // the stack has no TLS
			}
			query := match[1] + "{" + matcher.ReplaceAllStringFunc(match[2], anyValue) + "}"
			if result, err := p.query(query); err != nil || len(result) == 0 {
				p.t.Errorf("the alert %s: %s has no data: %v", one.Name, query, err)
			}
		}
	}
}

// anyValue lets a matcher match every value, if only an event makes the series with its value.
func anyValue(text string) string {
	name := matcher.FindStringSubmatch(text)[1]
	if slices.Contains(afterAnEvent, name) {
		return name + `!=""`
	}
	return text
}
