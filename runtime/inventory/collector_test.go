package inventory

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// scripted is a store with a state.
type scripted struct {
	state Inventory
	first uuid.UUID
	err   error
	reads int
}

// Inventory returns the state.
func (s *scripted) Inventory(context.Context, int) (Inventory, error) {
	s.reads++
	return s.state, s.err
}

// FirstRuntime returns the id.
func (s *scripted) FirstRuntime(context.Context) (uuid.UUID, error) { return s.first, nil }

// exported returns the number of series of each metric, and the value of the last one.
func exported(t *testing.T, c *Collector) (series map[string]int, values map[string]float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series, values = map[string]int{}, map[string]float64{}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			series[family.GetName()]++
			values[family.GetName()] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return series, values
}

func TestCollector_ReadsOncePerMinute(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	oldest := now.Add(-time.Hour)
	store := &scripted{state: Inventory{OldestDraft: &oldest, Stored: []Stored{{AccountID: uuid.New(), Drafts: 1, Bytes: 2}, {Drafts: 3, Bytes: 4}}}}
	c := NewCollector(store, uuid.New(), 1, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	series, values := exported(t, c)
	if series["mediastack_account_stored_bytes"] != 2 || series["mediastack_account_cap_bytes"] != 1 || values["mediastack_drafts"] != 4 || values["mediastack_stored_bytes"] != 6 {
		t.Errorf("%v %v", series, values)
	}
	if _, ok := values["mediastack_purge_last_success_timestamp_seconds"]; ok || series["mediastack_purge_runs_total"] != 3 {
		t.Errorf("before the first run of the purge: %v", values)
	}
	now = now.Add(cacheTTL - time.Second)
	if _, values = exported(t, c); store.reads != 1 || values["mediastack_drafts_oldest_age_seconds"] != 3659 {
		t.Errorf("%d reads, the oldest draft is %v s old", store.reads, values["mediastack_drafts_oldest_age_seconds"])
	}
	now = now.Add(time.Second)
	if exported(t, c); store.reads != 2 {
		t.Errorf("%d reads after a minute", store.reads)
	}
}

func TestCollector_ExportsNothingThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	replica := uuid.New()
	var logs strings.Builder
	store := &scripted{first: uuid.New()}
	c := NewCollector(store, replica, 1, func() time.Time { return now }, slog.New(slog.NewTextHandler(&logs, nil)))
	only := func(when string, failures float64) {
		t.Helper()
		if series, values := exported(t, c); len(series) != 1 || values["mediastack_inventory_failures_total"] != failures {
			t.Errorf("%s: %v", when, values)
		}
		now = now.Add(cacheTTL)
	}
	only("beside another replica", 0)
	store.first = replica
	store.err = errors.New("away")
	only("without a database", 1)
	only("still without", 2)
	if strings.Count(logs.String(), "cannot be read") != 1 {
		t.Errorf("the log says %s", logs.String())
	}
	store.err = nil
	if series, _ := exported(t, c); len(series) < 10 {
		t.Errorf("as the first replica: %v", series)
	}
}

func TestCollector_ExportsOnlySumsIfAccountsAreOff(t *testing.T) {
	t.Parallel()
	store := &scripted{state: Inventory{Stored: []Stored{{Bytes: 4}}}}
	series, values := exported(t, NewCollector(store, uuid.New(), 0, time.Now, slog.New(slog.DiscardHandler)))
	if series["mediastack_account_stored_bytes"] != 0 || values["mediastack_stored_bytes"] != 4 {
		t.Errorf("%v %v", series, values)
	}
}
