package postgres_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

func TestEnsureAccount_WritesOnlyDifferences(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	first, err := r.Ensure(t.Context(), spec)
	must(t, err)
	if first.Bucket == "" || first.Owners[0] != "ada@example.org" {
		t.Errorf("created %+v", first)
	}
	before := version(t, url, "account")
	again, err := r.Ensure(t.Context(), spec)
	must(t, err)
	if again.ID != first.ID || again.Bucket != first.Bucket || version(t, url, "account") != before {
		t.Error("ensuring the same again must write nothing and give the same account")
	}
	changed := spec
	changed.MaxStorage, changed.Suspended, changed.Bucket = 2000, true, first.Bucket
	updated, err := r.Ensure(t.Context(), changed)
	must(t, err)
	if updated.ID != first.ID || updated.MaxStorage != 2000 || !updated.Suspended || updated.Bucket != first.Bucket {
		t.Errorf("updated to %+v; the bucket must stay", updated)
	}
	changed.MaxStorage, changed.Bucket = 3000, "another-bucket"
	if _, err := r.Ensure(t.Context(), changed); !fault.Is(err, fault.Conflict) {
		t.Errorf("another bucket: %v", err)
	}
	if kept, err := r.Find(t.Context(), spec.Namespace, spec.Name); err != nil || kept.MaxStorage != 2000 || kept.Bucket != first.Bucket {
		t.Errorf("a rejected change was written: %+v, %v", kept, err)
	}
}

func TestOwners_DifferingInCaseAreOneOwner(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	owned := spec
	owned.Owners = []string{"o'brien@example.org", "Ada@Example.org", "ada@example.ORG"}
	first, err := r.Ensure(t.Context(), owned)
	must(t, err)
	if want := []string{"ada@example.org", "o'brien@example.org"}; !slices.Equal(first.Owners, want) {
		t.Errorf("owners are %q, want %q", first.Owners, want)
	}
	before := version(t, url, "account")
	owned.Owners = []string{"ADA@EXAMPLE.ORG", "O'Brien@Example.org"}
	must(t, check.ErrorOf(r.Ensure(t.Context(), owned)))
	if version(t, url, "account") != before {
		t.Error("another spelling of the same owners is written")
	}
}

func TestEnsureAccount_ConcurrentCallsCreateOne(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	ids := make([]uuid.UUID, 12)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			a, err := r.Ensure(t.Context(), spec)
			if err != nil {
				t.Errorf("ensure: %v", err)
			}
			ids[i] = a.ID
		})
	}
	all.Wait()
	if len(slices.Compact(ids)) != 1 {
		t.Errorf("several accounts were created: %v", ids)
	}
}

func TestEnsureAccount_RejectsBucketOfAnotherAccount(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	one, two := spec, spec
	one.Bucket, two.Bucket, two.Name = "shared", "shared", "other"
	first, err := r.Ensure(t.Context(), one)
	must(t, err)
	if _, err := r.Ensure(t.Context(), two); !fault.Is(err, fault.Conflict) || fault.From(err).Public != "bucket shared is owned by another account" {
		t.Errorf("a second account with the bucket: %v", err)
	}
	closeAccount(t, r, first.ID)
	if _, err := r.Ensure(t.Context(), two); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
}

func TestEnsureAccount_RejectsInvalidSpecs(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	for name, change := range map[string]func(*account.Spec){
		"not an address": func(s *account.Spec) { s.Owners = []string{"Ada <ada@example.org>"} },
		"no storage":     func(s *account.Spec) { s.MaxStorage = 0 },
		"no upload size": func(s *account.Spec) { s.MaxUploadSize = -1 },
	} {
		bad := spec
		change(&bad)
		if _, err := registry(store).Ensure(t.Context(), bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := registry(store).Find(t.Context(), spec.Namespace, spec.Name); !fault.Is(err, fault.NotFound) {
		t.Errorf("a rejected account exists: %v", err)
	}
}

// The tool policy is written when it changes. An empty list, which allows no tool, is kept
// apart from a missing list, which allows every tool.
func TestEnsureAccount_KeepsToolPolicy(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	want := spec
	for _, agents := range []account.ToolPolicy{
		{}, {ReadOnly: true}, {Tools: []string{}}, {}, {Tools: []string{"get_media", "list_media"}}, {ReadOnly: true, Tools: []string{"get_media"}},
		{Toolsets: []string{"core", "organize"}}, {Toolsets: []string{"organize"}}, {},
	} {
		want.ToolPolicy = agents
		made, err := r.Ensure(t.Context(), want)
		must(t, err)
		found, err := r.Find(t.Context(), want.Namespace, want.Name)
		must(t, err)
		if !made.ToolPolicy.Equal(agents) || !found.ToolPolicy.Equal(agents) {
			t.Errorf("want %+v, made %+v, found %+v", agents, made.ToolPolicy, found.ToolPolicy)
		}
		before := version(t, url, "account")
		must(t, check.ErrorOf(r.Ensure(t.Context(), want)))
		if version(t, url, "account") != before {
			t.Errorf("%+v is written twice", agents)
		}
	}
	want.Name, want.ToolPolicy = "born-with-it", account.ToolPolicy{Tools: []string{}, Toolsets: []string{"core", "find"}}
	if made, err := r.Ensure(t.Context(), want); err != nil || !made.ToolPolicy.Equal(want.ToolPolicy) {
		t.Errorf("%+v, %v", made.ToolPolicy, err)
	}
}

// The operator looks for these files in a bucket that lost its marker.
func TestSampleFiles_AreThoseOfTheOldestAndTheNewestItems(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	made, err := r.Ensure(t.Context(), spec)
	must(t, err)
	_, _, err = r.OpenApps(t.Context(), made.ID, nil)
	must(t, err)
	if keys, err := r.SampleFiles(t.Context(), made.ID); err != nil || len(keys) != 0 {
		t.Errorf("an account without items has %v, %v", keys, err)
	}
	exec(t, url, `INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at)
		SELECT ('00000000-0000-7000-8000-00000000000' || n)::uuid, account_id, id, 'photo.jpg', 'public', '', '',
			jsonb_build_array(jsonb_build_object('key', 'original-' || n), jsonb_build_object('key', 'thumbnail')), 7, now()
		FROM app, generate_series(1, 9) AS n`)
	keys, err := r.SampleFiles(t.Context(), made.ID)
	must(t, err)
	slices.Sort(keys)
	if want := []string{"original-1", "original-2", "original-3", "original-7", "original-8", "original-9"}; !slices.Equal(keys, want) {
		t.Errorf("the files are %v, want %v", keys, want)
	}
	if keys, err := r.SampleFiles(t.Context(), uuid.New()); err != nil || len(keys) != 0 {
		t.Errorf("another account has %v, %v", keys, err)
	}
}
