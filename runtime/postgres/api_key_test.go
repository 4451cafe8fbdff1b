package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

func TestAppsAndKeys_Lifecycle(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	a, err := r.Ensure(t.Context(), spec)
	must(t, err)
	apps, _, err := r.OpenApps(t.Context(), a.ID, []string{"blog"})
	must(t, err)
	if len(apps) != 2 || apps[0].Name != account.DefaultApp || apps[1].Name != "blog" {
		t.Fatalf("apps are %+v", apps)
	}
	before := version(t, url, "app") + version(t, url, "app_total")
	again, _, err := r.OpenApps(t.Context(), a.ID, []string{"blog"})
	must(t, err)
	if !slices.Equal(again, apps) || version(t, url, "app")+version(t, url, "app_total") != before {
		t.Error("setting the same apps must write nothing")
	}

	first, firstKey, err := r.IssueKey(t.Context(), apps[0].ID, 1, 0)
	must(t, err)
	blog, _, err := r.IssueKey(t.Context(), apps[1].ID, 1, 0)
	must(t, err)
	p, err := store.Credentials.FindPrincipal(t.Context(), first.Hash())
	must(t, err)
	if p.Account.ID != a.ID || p.App != apps[0] || p.Key.ID != firstKey.ID || !p.Key.Hash.Equal(first.Hash()) {
		t.Errorf("the principal of the key is %+v", p)
	}
	second, _, err := r.IssueKey(t.Context(), apps[0].ID, 2, time.Hour)
	must(t, err)
	keys := validKeys(t, r, a.ID, apps[0].ID)
	if len(keys) != 2 || !keys[0].Hash.Equal(second.Hash()) || keys[0].ExpiresAt != nil {
		t.Errorf("after a rotation with overlap the keys are %+v", keys)
	}
	if p, err := store.Credentials.FindPrincipal(t.Context(), first.Hash()); err != nil || p.Key.ExpiresAt == nil || time.Until(*p.Key.ExpiresAt) > time.Hour {
		t.Errorf("the old key must end after the overlap: %+v, %v", p.Key, err)
	}
	_, _, err = r.IssueKey(t.Context(), apps[0].ID, 2, 0)
	must(t, err)
	if keys := validKeys(t, r, a.ID, apps[0].ID); len(keys) != 1 {
		t.Errorf("without overlap only the newest of an app stays: %+v", keys)
	}

	must(t, r.CloseApps(t.Context(), a.ID, apps[1:]))
	if _, err := store.Credentials.FindPrincipal(t.Context(), blog.Hash()); !fault.Is(err, fault.NotFound) {
		t.Errorf("the key of a closed app: %v", err)
	}
	reopened, _, err := r.OpenApps(t.Context(), a.ID, []string{"blog"})
	must(t, err)
	if reopened[1].ID != apps[1].ID {
		t.Error("an app that is added again has another id")
	}
	if _, err := store.Credentials.FindPrincipal(t.Context(), blog.Hash()); !fault.Is(err, fault.NotFound) {
		t.Errorf("the old key of an app that is added again must stay revoked: %v", err)
	}

	closed, err := r.Close(t.Context(), a.ID, account.CloseOptions{Erase: true})
	must(t, err)
	once, err := r.Close(t.Context(), a.ID, account.CloseOptions{})
	must(t, err)
	if once.EraseAfter == nil || !once.EraseAfter.Equal(*closed.EraseAfter) || !once.ClosedAt.Equal(*closed.ClosedAt) {
		t.Errorf("closed as %+v, and again as %+v", closed, once)
	}
	if _, err := store.Credentials.FindPrincipal(t.Context(), second.Hash()); !fault.Is(err, fault.NotFound) {
		t.Errorf("the key of a closed account: %v", err)
	}
	_, err = r.BeginErasure(t.Context(), a.ID)
	must(t, err)
	must(t, r.SetBucketRemoved(t.Context(), a.ID))
	if done, err := r.EraseRows(t.Context(), a.ID, always); err != nil || !done {
		t.Errorf("erase: %t, %v", done, err)
	}
	if v := version(t, url, "account") + version(t, url, "api_key") + version(t, url, "app"); v != "" {
		t.Errorf("rows are left after erase: %s", v)
	}
}

func TestTouchKeys_KeepsLatestUseWithoutNotification(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	a, err := r.Ensure(t.Context(), spec)
	must(t, err)
	apps, _, err := r.OpenApps(t.Context(), a.ID, nil)
	must(t, err)
	_, key, err := r.IssueKey(t.Context(), apps[0].ID, 1, 0)
	must(t, err)
	used := time.Now().Truncate(time.Microsecond)
	must(t, store.Credentials.TouchKeys(t.Context(), map[uuid.UUID]account.Use{key.ID: {At: used}, uuid.New(): {At: used}}))
	must(t, store.Credentials.TouchKeys(t.Context(), map[uuid.UUID]account.Use{key.ID: {At: used.Add(-time.Hour)}}))
	keys := validKeys(t, r, a.ID, apps[0].ID)
	if keys[0].LastUsedAt == nil || !keys[0].LastUsedAt.Equal(used) {
		t.Errorf("last used %v, want %v", keys[0].LastUsedAt, used)
	}
}

// validKeys returns the valid keys of an app, newest first.
func validKeys(t *testing.T, r *account.Registry, accountID, appID uuid.UUID) []account.Key {
	t.Helper()
	keys, err := r.Keys(t.Context(), accountID)
	must(t, err)
	return keys.Apps[appID].Valid
}
