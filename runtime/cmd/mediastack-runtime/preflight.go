package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mediastack.dev/runtime/internal/cdnclient"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/internal/scanner"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/preflight"
)

// preflightCommand has the settings of serve, so that it rejects what serve would reject.
type preflightCommand struct {
	Settings serveCommand `embed:""`

	ServiceURL string        `name:"service-url" help:"URL at which a running service must answer, e.g. that of its Service in the cluster."`
	Timeout    time.Duration `default:"30s" help:"Time for the checks of one store, from 1s to 10m."`
}

// Validate checks what is not a setting of serve; kong calls it.
func (c *preflightCommand) Validate() error {
	if c.Timeout < time.Second || c.Timeout > 10*time.Minute {
		return fmt.Errorf("--timeout must be from 1s to 10m, not %s", c.Timeout)
	}
	if service, err := url.Parse(c.ServiceURL); c.ServiceURL != "" && (err != nil || service.Host == "" || service.Scheme != "http" && service.Scheme != "https") {
		return fmt.Errorf("--service-url must be a URL, not %q", c.ServiceURL)
	}
	return nil
}

// Run checks the stores and prints what it found, one line for each finding.
func (c *preflightCommand) Run(ctx context.Context, io stdio) error {
	objects, err := objectstore.New(c.Settings.Objects)
	if err != nil {
		return usageError{err}
	}
	report := &preflight.Report{}
	for _, check := range []func(context.Context){
		func(ctx context.Context) { postgres.Preflight(ctx, c.Settings.Database, report) },
		func(ctx context.Context) { objects.Preflight(ctx, report) },
		func(ctx context.Context) { mail.Preflight(ctx, c.Settings.Mail, c.Settings.Server.BaseURL, report) },
		func(ctx context.Context) { cdnclient.Preflight(ctx, c.Settings.CDN, report) },
		func(ctx context.Context) { scanner.Preflight(ctx, c.Settings.Scanners, report) },
		func(ctx context.Context) { c.checkAddress(ctx, report) },
	} {
		limited, cancel := context.WithTimeout(ctx, c.Timeout)
		check(limited)
		cancel()
	}
	for _, finding := range report.Findings {
		if _, err := fmt.Fprintf(io.out, "%-7s  %s: %s\n", finding.Outcome, finding.Part, finding.Text); err != nil {
			return err
		}
	}
	if missing := report.Count(preflight.Missing); missing > 0 {
		_, _ = fmt.Fprintf(io.out, "%d missing: the service cannot work yet\n", missing)
		return exitCode(exitActionRequired)
	}
	_, err = fmt.Fprintln(io.out, "nothing is missing")
	return err
}

// addressPart is the part of the report on the addresses of the service.
const addressPart = "address"

// checkAddress reports whether the service answers. At the base URL it may not, before it is
// installed, or from inside the cluster.
func (c *preflightCommand) checkAddress(ctx context.Context, report *preflight.Report) {
	base := strings.TrimRight(c.Settings.Server.BaseURL, "/")
	if strings.HasPrefix(base, "http://") {
		report.Note(addressPart, "%s is not encrypted: use https for anything but a test", base)
	}
	if err := answers(ctx, http.DefaultClient, base); err != nil {
		report.Note(addressPart, "%s does not answer from here: %v", base, err)
	} else {
		report.Works(addressPart, "the service answers at %s", base)
	}
	if c.ServiceURL == "" {
		return
	}
	if err := answers(ctx, clientOf(base), strings.TrimRight(c.ServiceURL, "/")); err != nil {
		report.Missing(addressPart, "the service does not answer at %s: %v. Look at its pods; a NetworkPolicy may forbid the connection", c.ServiceURL, err)
	} else {
		report.Works(addressPart, "the service answers at %s", c.ServiceURL)
	}
}

// clientOf returns a client that expects a certificate for the host of the base URL wherever it
// connects to: tenants see that one, and no certificate need name the Service.
func clientOf(base string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // by its documentation
	if parsed, err := url.Parse(base); err == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: parsed.Hostname()}
	}
	return &http.Client{Transport: transport}
}

// answers returns an error unless the service answers at a URL. Only the service has this
// document.
func answers(ctx context.Context, client *http.Client, base string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/openapi.json", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "application/json") {
		return fmt.Errorf("%s/openapi.json answers %s, %q", base, response.Status, kind)
	}
	return nil
}
