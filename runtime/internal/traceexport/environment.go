package traceexport

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// The standard variables that decide whether traces are exported, and how. The SDK reads them, too;
// here they are validated, since it ignores invalid values.
const (
	disabledVariable       = "OTEL_SDK_DISABLED"
	exporterVariable       = "OTEL_TRACES_EXPORTER"
	samplerVariable        = "OTEL_TRACES_SAMPLER"
	samplerArgVariable     = "OTEL_TRACES_SAMPLER_ARG"
	queueSizeVariable      = "OTEL_BSP_MAX_QUEUE_SIZE"
	batchSizeVariable      = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
	scheduleDelayVariable  = "OTEL_BSP_SCHEDULE_DELAY"
	exportTimeoutVariable  = "OTEL_BSP_EXPORT_TIMEOUT"
	exporterVariablePrefix = "OTEL_EXPORTER_OTLP_"
	tracesVariablePrefix   = "OTEL_EXPORTER_OTLP_TRACES_"
)

// Bounds of the variables.
const (
	maxQueueSize = 1 << 17 // spans, of about 1 KiB each
	maxDelay     = 600_000 // milliseconds

	defaultQueueSize = 2048
	defaultBatchSize = 512
)

// environment is what the standard variables say.
type environment struct {
	enabled              bool
	queueSize, batchSize int
}

// lookup returns the value of an environment variable.
type lookup func(name string) string

// exporterValue returns the value of a variable of the exporter, of which the traces may have their
// own, and its name.
func (get lookup) exporterValue(name string) (value, variable string) {
	if value = get(tracesVariablePrefix + name); value != "" {
		return value, tracesVariablePrefix + name
	}
	return get(exporterVariablePrefix + name), exporterVariablePrefix + name
}

// readEnvironment validates the standard variables. Without an endpoint there are no traces, and
// nothing else is read.
func readEnvironment(get lookup) (environment, error) {
	if strings.EqualFold(get(disabledVariable), "true") {
		return environment{}, nil
	}
	switch exporter := get(exporterVariable); exporter {
	case "", "otlp":
	case "none":
		return environment{}, nil
	default:
		return environment{}, fmt.Errorf("%s must be otlp or none, not %q", exporterVariable, exporter)
	}
	endpoint, variable := get.exporterValue("ENDPOINT")
	if endpoint == "" {
		return environment{}, nil
	}
	// The URL is not quoted: it may have a password.
	if at, err := url.Parse(endpoint); err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.User != nil || at.RawQuery != "" {
		return environment{}, fmt.Errorf("%s must look like http://collector:4318; credentials belong into %sHEADERS", variable, exporterVariablePrefix)
	}
	found := environment{enabled: true}
	queue, queueErr := get.number(queueSizeVariable, defaultQueueSize, maxQueueSize)
	batch, batchErr := get.number(batchSizeVariable, min(defaultBatchSize, queue), max(queue, 1))
	found.queueSize, found.batchSize = queue, batch
	return found, errors.Join(queueErr, batchErr, get.validateSampler(), get.validateExporter(), get.validateTimes())
}

// number returns a variable's number from 1 to maximum.
func (get lookup) number(variable string, byDefault, maximum int) (int, error) {
	text := get(variable)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maximum {
		return 0, fmt.Errorf("%s must be from 1 to %d, not %q", variable, maximum, text)
	}
	return n, nil
}

// validateTimes checks the variables that are in milliseconds.
func (get lookup) validateTimes() error {
	var all []error
	for _, variable := range []string{scheduleDelayVariable, exportTimeoutVariable, exporterVariablePrefix + "TIMEOUT", tracesVariablePrefix + "TIMEOUT"} {
		_, err := get.number(variable, 1, maxDelay)
		all = append(all, err)
	}
	return errors.Join(all...)
}

func (get lookup) validateSampler() error {
	switch sampler := get(samplerVariable); sampler {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
	default:
		return fmt.Errorf("%s must be always_on, always_off, traceidratio, or one of them after parentbased_, not %q", samplerVariable, sampler)
	}
	text := get(samplerArgVariable)
	if ratio, err := strconv.ParseFloat(text, 64); text != "" && (err != nil || !(ratio >= 0 && ratio <= 1)) {
		return fmt.Errorf("%s must be from 0 to 1, not %q", samplerArgVariable, text)
	}
	return nil
}

func (get lookup) validateExporter() error {
	if protocol, variable := get.exporterValue("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return fmt.Errorf("%s must be http/protobuf, not %q; collectors receive it on port 4318", variable, protocol)
	}
	if compression, variable := get.exporterValue("COMPRESSION"); compression != "" && compression != "none" && compression != "gzip" {
		return fmt.Errorf("%s must be none or gzip, not %q", variable, compression)
	}
	for _, name := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		path, variable := get.exporterValue(name)
		if path == "" {
			continue
		}
		if _, err := os.ReadFile(path); err != nil {
			return fmt.Errorf("%s: %w", variable, err)
		}
	}
	headers, variable := get.exporterValue("HEADERS")
	for header := range strings.SplitSeq(headers, ",") {
		name, value, found := strings.Cut(header, "=")
		_, err := url.PathUnescape(value)
		if strings.TrimSpace(header) != "" && (!found || strings.TrimSpace(name) == "" || err != nil) {
			return fmt.Errorf("%s must look like name=value,name=value with percent-encoded values", variable) // not quoted: it is a secret
		}
	}
	return nil
}
