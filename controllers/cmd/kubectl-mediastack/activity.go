package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// activityCommand lists the events of an account's journal.
type activityCommand struct {
	Name   string        `arg:"" help:"Name of the MediaAccount."`
	App    string        `default:"default" help:"App whose events are listed. The Default App has those of the account, too."`
	Types  []string      `help:"Only events of these types, with commas between them, such as media.deleted,login."`
	Since  time.Duration `help:"Only events that are not older, such as 2h. By default all that the journal has."`
	Follow bool          `short:"f" help:"Go on with events as they come, until Ctrl-C."`
	Output string        `short:"o" enum:"table,json" default:"table" help:"table, or json: the document of an event on each line."`
	URL    string        `name:"url" help:"Base URL of the service, if the one in the Secret cannot be reached from here, such as http://127.0.0.1:8080 of kubectl port-forward."`
	Brand  string        `default:"service" help:"Brand of the installation in header names (SERVICE_BRAND)."`
}

// Pauses between attempts while the service is away.
const (
	firstPause = time.Second
	maxPause   = 30 * time.Second
)

// Run prints the events, the oldest first.
func (c *activityCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	if c.Since < 0 {
		return fmt.Errorf("--since must not be negative, as %s is", c.Since)
	}
	secret, err := c.secret(ctx, cluster)
	if err != nil {
		return err
	}
	base := cmp.Or(c.URL, string(secret.Data[v1alpha1.SecretBaseURL]))
	source, err := newFeed(base, string(secret.Data[v1alpha1.SecretAPIKey]), c.Brand, c.Types)
	if err != nil {
		return err
	}
	writer := &eventWriter{out: out, json: c.Output == "json"}
	if c.Since > 0 {
		writer.since = cluster.now().Add(-c.Since)
	}
	after := ""
	for {
		page, err := source.read(ctx, after, 0)
		if err != nil {
			return c.explain(ctx, err, source, secret)
		}
		if err := writer.write(page.Events); err != nil {
			return err
		}
		if after = page.Next; !page.More {
			break
		}
	}
	if c.Follow {
		return c.follow(ctx, cluster, source, secret, writer, after)
	}
	if !writer.begun && !writer.json {
		_, err = fmt.Fprintln(out, "no events")
	}
	return err
}

// secret reads the Secret with the API key of the app.
func (c *activityCommand) secret(ctx context.Context, cluster *cluster) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.namespace, Name: v1alpha1.SecretName(c.Name, c.App)}
	switch err := cluster.Get(ctx, key, secret); {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the API key of the account is needed, and you may not read its Secret %s: ask for the right to get this Secret (%w)", key, err)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s: the namespace has no MediaAccount %s with the app %s, or it is not Ready yet (kubectl mediastack status -n %s)", key, c.Name, c.App, key.Namespace)
	case err != nil:
		return nil, err
	}
	for _, entry := range []string{v1alpha1.SecretAPIKey, v1alpha1.SecretBaseURL} {
		if len(secret.Data[entry]) == 0 {
			return nil, fmt.Errorf("the Secret %s has no entry %s: it is not one of a MediaAccount", key, entry)
		}
	}
	return secret, nil
}

// explain returns what the user can do about an error of the service.
func (c *activityCommand) explain(ctx context.Context, err error, source *feed, secret *corev1.Secret) error {
	if ctx.Err() != nil { // Ctrl-C
		return nil
	}
	var unreachable *unreachableError
	if errors.As(err, &unreachable) {
		return fmt.Errorf("the service at %s cannot be reached from here: %w (--url names another address of it, such as that of kubectl port-forward)", source.base, err)
	}
	var answered *answerError
	if !errors.As(err, &answered) {
		return err
	}
	switch answered.status {
	case http.StatusConflict:
		return fmt.Errorf("%w\nNothing is recorded before it is switched on: kubectl -n %s patch mediaaccount %s --type merge -p '{\"spec\":{\"journal\":{}}}'", err, secret.Namespace, c.Name)
	case http.StatusUnauthorized:
		return fmt.Errorf("%s does not accept the key of the Secret %s/%s (%w). Is it another service, or has SERVICE_BRAND another value than %s (--brand)?", source.base, secret.Namespace, secret.Name, err, c.Brand)
	}
	return fmt.Errorf("%s: %w", source.base, err)
}

// follow prints events as they come, until ctx ends or the service says something that does not pass.
func (c *activityCommand) follow(ctx context.Context, cluster *cluster, source *feed, secret *corev1.Secret, writer *eventWriter, after string) error {
	note := func(format string, args ...any) { _, _ = fmt.Fprintf(cluster.log, "note: "+format+"\n", args...) }
	for pause := firstPause; ; {
		wait := waitForEvents
		if after == "now" { // its cursor is answered at once
			wait = 0
		}
		page, err := source.read(ctx, after, wait)
		if err == nil {
			if err := writer.write(page.Events); err != nil {
				return err
			}
			after, pause = page.Next, firstPause
			continue
		}
		if ctx.Err() != nil { // Ctrl-C
			return nil
		}
		var answered *answerError
		if errors.As(err, &answered) && answered.status == http.StatusGone {
			note("events may be missing here (%s); going on with those from now on", answered.detail)
			after = "now"
			continue
		}
		least, later := passes(err)
		if !later {
			return c.explain(ctx, err, source, secret)
		}
		next := max(pause, min(least, maxPause))
		note("%s: %v; trying again in %s", source.base, err, next)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
		pause = min(2*pause, maxPause)
	}
}

// eventWriter prints events.
type eventWriter struct {
	out   io.Writer
	json  bool
	since time.Time // older events are left out
	begun bool      // something was printed
}

func (w *eventWriter) write(events []event) error {
	// One page is one table: events appear as they come.
	table := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	for _, e := range events {
		if e.Time.Before(w.since) {
			continue
		}
		if w.json {
			var line bytes.Buffer
			if err := json.Compact(&line, e.document); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w.out, line.String()); err != nil {
				return err
			}
			continue
		}
		if !w.begun {
			_, _ = fmt.Fprintln(table, "WHEN\tWHO\tWHAT\tITEM")
		}
		w.begun = true
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", e.Time.UTC().Format(time.RFC3339), e.who(), e.what(), cmp.Or(printable(e.MediaID), "-"))
	}
	return table.Flush()
}

// who returns the actor: its kind, the name of its application, and the address of the user; of a decision also who has asked.
func (e event) who() string {
	if e.Actor == nil {
		return "-"
	}
	if asker := e.Actor.AskedBy; asker != nil {
		return e.Actor.String() + ", asked by " + asker.String()
	}
	return e.Actor.String()
}

// String returns the actor as a column of the table.
func (a actor) String() string {
	text := printable(a.Kind)
	for _, more := range []string{a.Name, a.Email} {
		if more != "" {
			text += " " + printable(more)
		}
	}
	return text
}

// what returns the type, and what has changed.
func (e event) what() string {
	text := printable(e.Type)
	if e.Percent > 0 {
		text += fmt.Sprintf(" %d%%", e.Percent)
	}
	if len(e.Fields) > 0 {
		text += " " + printable(strings.Join(e.Fields, ","))
	}
	return text
}

// printable returns a text without what would move the cursor of a terminal: applications choose their names themselves.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}
