package environment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"mediastack.dev/runtime/environment"
)

// program declares a setting that is not in the table yet.
func program(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&struct {
		New string `env:"SERVICE_BRAND_NEW"`
	}{})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

func TestCheck_NamesMisspelledSettingsAndTheNearest(t *testing.T) {
	t.Parallel()
	err := environment.Check([]string{"PATH=/bin", "SERVICE_MAX_UPLOAD=7", "SERVICE_BRAND_NEW=1", "SERVICE_SMTP_PROT=25", "SERVICE_MAX_UPLOADS=3", "SERVICE_DATABASE_URI=postgres://u:hunter2@h/d"}, program(t))
	want := "SERVICE_DATABASE_URI is not a setting; the nearest is SERVICE_DATABASE_URL; " +
		"SERVICE_MAX_UPLOAD is not a setting; the nearest is SERVICE_MAX_UPLOADS; " +
		"SERVICE_SMTP_PROT is not a setting; the nearest is SERVICE_SMTP_PORT"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A pod with service links, in a namespace that has the Services service, service-media and
// service-max, starts all the same.
func TestCheck_AcceptsServiceLinks(t *testing.T) {
	t.Parallel()
	var environ []string
	for _, name := range []string{"SERVICE", "SERVICE_MEDIA", "SERVICE_MAX"} {
		environ = append(environ, name+"_SERVICE_HOST=10.0.0.1", name+"_SERVICE_PORT=80", name+"_SERVICE_PORT_HTTP=80", name+"_PORT=tcp://10.0.0.1:80",
			name+"_PORT_80_TCP=tcp://10.0.0.1:80", name+"_PORT_80_TCP_PROTO=tcp", name+"_PORT_80_TCP_PORT=80", name+"_PORT_80_TCP_ADDR=10.0.0.1")
	}
	if err := environment.Check(environ, program(t)); err != nil {
		t.Error(err)
	}
	if err := environment.Check([]string{"SERVICE_MEDIA_PORT=80"}, program(t)); err == nil {
		t.Error("a port that is no service link is accepted")
	}
}

func TestNames_AreSortedAndUnique(t *testing.T) {
	t.Parallel()
	names := environment.Names()
	if len(names) < 100 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("got %d names: %s", len(names), strings.Join(names, " "))
	}
}

func TestExplain_SaysWhatAValueMayBe(t *testing.T) {
	parser, err := kong.New(&struct {
		Rate int `env:"SERVICE_RATE_X" help:"Checks a second, from 1 to 1000."`
	}{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SERVICE_RATE_X", "abc")
	_, failed := parser.Parse(nil)
	const want = `(from envar SERVICE_RATE_X="abc"); SERVICE_RATE_X: Checks a second, from 1 to 1000.`
	if got := environment.Explain(failed, parser.Model); got == nil || !strings.HasSuffix(got.Error(), want) {
		t.Errorf("the error is %v, want one with %s", got, want)
	}
	if got := environment.Explain(nil, parser.Model); got != nil {
		t.Errorf("without an error it is %v", got)
	}
}
