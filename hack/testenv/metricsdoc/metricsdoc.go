// Package metricsdoc compares the metrics that a program exports with docs/reference/metrics.md. Tests
// of both programs and of the dashboard use it.
package metricsdoc

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"mediastack.dev/hack/testenv"
)

// Exported scrapes a URL and returns the metrics by name.
func Exported(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s is answered %s", url, response.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(response.Body)
}

// row is a row of a table: a metric with its type, labels and meaning.
var (
	row   = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|([^|]*)\\| ([^|]+) \\|$")
	label = regexp.MustCompile("`(\\w+)`")
)

// Documented returns the metrics of a section: type, labels and help text by name.
func Documented(t testing.TB, section string) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+section+"\n")
	if !found {
		t.Fatalf("docs/reference/metrics.md has no section %s", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	rows := map[string]string{}
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		var labels []string
		for _, one := range label.FindAllStringSubmatch(match[3], -1) {
			labels = append(labels, one[1])
		}
		slices.Sort(labels)
		rows[match[1]] = describe(match[1], match[2], labels, match[4])
	}
	return rows
}

// Compare reports every metric that one side lacks, or that has another type, other labels or another help
// text. The reference is generated from the source: so a metric that the generator does not find, or reads
// wrongly, is reported. It may omit metrics of libraries, and describes those in its own words.
func Compare(t testing.TB, documented map[string]string, exported map[string]*dto.MetricFamily) {
	t.Helper()
	for name, family := range exported {
		labels := map[string]bool{}
		for _, one := range family.GetMetric() {
			for _, pair := range one.GetLabel() {
				labels[pair.GetName()] = true
			}
		}
		is := describe(name, strings.ToLower(family.GetType().String()), slices.Sorted(maps.Keys(labels)), strings.TrimSuffix(family.GetHelp(), "."))
		if says, ok := documented[name]; ok && says != is {
			t.Errorf("docs/reference/metrics.md says that %s is a %s; it is a %s", name, says, is)
		} else if !ok && strings.HasPrefix(name, ours) {
			t.Errorf("docs/reference/metrics.md has no row for %s, a %s", name, is)
		}
	}
	for name := range documented {
		if exported[name] == nil {
			t.Errorf("docs/reference/metrics.md has a row for %s, which is not exported", name)
		}
	}
}

// ours begins the names of the metrics that are not of a library.
const ours = "mediastack_"

func describe(name, kind string, labels []string, help string) string {
	if !strings.HasPrefix(name, ours) {
		help = ""
	}
	return fmt.Sprintf("%s %v %s", kind, labels, help)
}
