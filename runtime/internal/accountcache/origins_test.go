package accountcache

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// origins is a store, and a policy to which all of them are invalid.
type origins []string

func (o *origins) ListOrigins(context.Context) ([]string, error) { return *o, nil }

func (o *origins) SetAccountOrigins(texts []string) ([]string, error) { return texts, nil }

// Each change of any account reads all origins. One invalid origin was a line of the log each time.
func TestOrigins_InvalidOnesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	list := &origins{"https://app.example.org:443"}
	o := NewOrigins(list, list, slog.New(slog.NewTextHandler(&log, nil)))
	for i, step := range []struct {
		list  origins
		lines int
	}{
		{origins{"https://a.example:443"}, 1}, {origins{"https://a.example:443"}, 1}, {origins{"https://b.example:443"}, 2}, {nil, 2}, {origins{"https://b.example:443"}, 3},
	} {
		*list = step.list
		if err := o.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(log.String(), "invalid web origins"); lines != step.lines {
			t.Errorf("after step %d there are %d lines, want %d", i, lines, step.lines)
		}
	}
}
