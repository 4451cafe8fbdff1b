package traceexport

import (
	"path/filepath"
	"strings"
	"testing"
)

func lookupIn(values map[string]string) lookup {
	return func(name string) string { return values[name] }
}

func TestEnvironment_EnablesTracesByItsEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values map[string]string
		want   environment
	}{
		"nothing":                     {nil, environment{}},
		"settings without endpoint":   {map[string]string{samplerVariable: "x"}, environment{}},
		"an endpoint":                 {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, environment{true, 2048, 512}},
		"an endpoint of the traces":   {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/v1/traces"}, environment{true, 2048, 512}},
		"a queue below the batch":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", queueSizeVariable: "16"}, environment{true, 16, 16}},
		"an SDK that is disabled":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", disabledVariable: "True"}, environment{}},
		"no exporter":                 {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", exporterVariable: "none"}, environment{}},
		"a sampler with its argument": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", samplerVariable: "traceidratio", samplerArgVariable: "0.01"}, environment{true, 2048, 512}},
	} {
		if got, err := readEnvironment(lookupIn(c.values)); err != nil || got != c.want {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestEnvironment_RejectsWhatTheSDKIgnores(t *testing.T) {
	t.Parallel()
	for variable, values := range map[string][]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":        {"collector:4318", "ftp://c", "http://", "http://u:hunter2@c", "http://c?token=hunter2", "http://%zz"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":        {"grpc", "http/json"},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": {"grpc"},
		"OTEL_EXPORTER_OTLP_COMPRESSION":     {"zstd"},
		"OTEL_EXPORTER_OTLP_TIMEOUT":         {"10s", "0"},
		"OTEL_EXPORTER_OTLP_HEADERS":         {"hunter2", "=hunter2", "a=hunter2%zz", "a=b,hunter2"},
		"OTEL_EXPORTER_OTLP_CERTIFICATE":     {filepath.Join(t.TempDir(), "none.pem")},
		exporterVariable:                     {"zipkin", "console"},
		samplerVariable:                      {"always", "jaeger_remote"},
		queueSizeVariable:                    {"0", "-1", "x", "131073"},
		batchSizeVariable:                    {"0", "2049"},
		scheduleDelayVariable:                {"5s", "0"},
		exportTimeoutVariable:                {"-1"},
	} {
		for _, value := range values {
			set := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", variable: value}
			if _, err := readEnvironment(lookupIn(set)); err == nil || !strings.Contains(err.Error(), variable) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s=%s: %v", variable, value, err)
			}
		}
	}
	for _, ratio := range []string{"1.1", "-0.1", "NaN", "1%"} {
		set := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", samplerVariable: "parentbased_traceidratio", samplerArgVariable: ratio}
		if _, err := readEnvironment(lookupIn(set)); err == nil || !strings.Contains(err.Error(), samplerArgVariable) {
			t.Errorf("a ratio of %s: %v", ratio, err)
		}
	}
}
