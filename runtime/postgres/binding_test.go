package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// object returns the spec of a MediaAccount in one incarnation of a namespace.
func object(namespace, name, namespaceUID, objectUID string) account.Spec {
	s := spec
	s.Namespace, s.Name, s.NamespaceUID, s.ObjectUID = namespace, name, namespaceUID, objectUID
	return s
}

// retain binds a MediaAccount to a new account and closes it.
func retain(t *testing.T, r *account.Registry, of account.Spec) account.Retained {
	t.Helper()
	made, err := r.Ensure(t.Context(), of)
	must(t, err)
	closeAccount(t, r, made.ID)
	return retained(t, r, made.ID)
}

func retained(t *testing.T, r *account.Registry, id uuid.UUID) account.Retained {
	t.Helper()
	found, err := r.Retained(t.Context(), id)
	must(t, err)
	return found
}

func exec(t *testing.T, url, sql string, args ...any) {
	t.Helper()
	must(t, check.ErrorOf(testenv.Connections(t, url).Exec(t.Context(), sql, args...)))
}

// isRetained checks that the binding was rejected with a message that names the account.
func isRetained(t *testing.T, err error, mentions ...string) {
	t.Helper()
	if !fault.Is(err, fault.Conflict) || fault.ReasonOf(err) != fault.Retained {
		t.Errorf("want Conflict with reason Retained, got %v", err)
	}
	for _, text := range mentions {
		if !strings.Contains(fault.From(err).Public, text) {
			t.Errorf("%q does not mention %q", fault.From(err).Public, text)
		}
	}
}

func TestEnsure_SameNamespaceRestoresTheRetainedAccount(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	first := retain(t, r, object("team", "demo", "ns1", "uid1"))
	exec(t, url, `UPDATE account SET erase_after = now() + interval '1 day', bucket_owned = true`)
	again := object("team", "demo", "ns1", "uid2")
	again.MaxStorage = 5000
	bound, err := r.Ensure(t.Context(), again)
	must(t, err)
	if bound.ID != first.ID || bound.Bucket != first.Bucket || bound.ClosedAt != nil || bound.EraseAfter != nil || bound.ObjectUID != "uid2" || bound.MaxStorage != 5000 {
		t.Errorf("bound to %+v, want account %s with the new spec", bound, first.ID)
	}
	if bound.BucketOwned {
		t.Error("the bucket is trusted before its marker was read again")
	}
	before := version(t, url, "account")
	if same, err := r.Update(t.Context(), again); err != nil || same.ID != first.ID || version(t, url, "account") != before {
		t.Errorf("the second call wrote, or found another account: %+v, %v", same, err)
	}
	if _, err := r.Update(t.Context(), object("team", "demo", "ns1", "uid1")); !fault.Is(err, fault.NotFound) {
		t.Errorf("the former object updates the account: %v", err)
	}
}

func TestEnsure_AnotherNamespaceOfTheNameWaitsForAnAdmin(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	first := retain(t, r, object("team", "demo", "ns1", "uid1"))
	otherTenant := object("team", "demo", "ns2", "uid2")
	_, err := r.Ensure(t.Context(), otherTenant)
	isRetained(t, err, first.ID.String(), "kubectl patch retainedmediaaccount "+first.ID.String(), "claimRef", "reserveName")
	if _, err := r.Find(t.Context(), "team", "demo"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the other tenant has an account: %v", err)
	}

	for name, change := range map[string]func(*account.Closing){
		"another closing":      func(c *account.Closing) { c.ClosedAt = c.ClosedAt.Add(-time.Microsecond) },
		"another installation": func(c *account.Closing) { c.InstallationID = uuid.New() },
		"another account":      func(c *account.Closing) { c.AccountID = uuid.New() },
	} {
		closing := first.Closing()
		change(&closing)
		otherTenant.Binding = account.Binding{Granted: []account.Closing{closing}, Released: []account.Closing{closing}}
		_, err := r.Ensure(t.Context(), otherTenant)
		if isRetained(t, err); t.Failed() {
			t.Fatal(name)
		}
	}

	otherTenant.Binding = account.Binding{Granted: []account.Closing{first.Closing()}}
	if bound, err := r.Ensure(t.Context(), otherTenant); err != nil || bound.ID != first.ID || bound.NamespaceUID != "ns2" {
		t.Errorf("granted: %+v, %v", bound, err)
	}
}

func TestEnsure_ReleasedNameStartsWithAnEmptyAccount(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	first := retain(t, r, object("team", "demo", "ns1", "uid1"))
	for i, namespaceUID := range []string{"ns1", "ns2"} {
		fresh := object("team", "demo", namespaceUID, "fresh"+namespaceUID)
		fresh.Binding.Released = []account.Closing{first.Closing()}
		made, err := r.Ensure(t.Context(), fresh)
		must(t, err)
		if made.ID == first.ID || made.Bucket == first.Bucket {
			t.Errorf("%d: the new account is the retained one", i)
		}
		exec(t, url, `DELETE FROM account WHERE id = $1`, made.ID)
	}
}

func TestEnsure_AnOpenAccountOfAFormerNamespaceBecomesRetained(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	made, err := r.Ensure(t.Context(), object("team", "demo", "ns1", "uid1"))
	must(t, err)
	_, err = r.Ensure(t.Context(), object("team", "demo", "ns2", "uid2"))
	isRetained(t, err, made.ID.String())
	retained(t, r, made.ID) // the closing is kept, although the binding was rejected
}

func TestEnsure_ATakeOverBindsByNamespaceAndName(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	made, err := r.Ensure(t.Context(), object("team", "demo", "ns1", "uid1"))
	must(t, err)
	exec(t, url, `UPDATE account SET namespace_uid = ''`)
	if _, err := r.Update(t.Context(), object("team", "demo", "ns1", "uid1")); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unbound account is updated before it is bound: %v", err)
	}
	if bound, err := r.Ensure(t.Context(), object("team", "demo", "ns9", "uid9")); err != nil || bound.ID != made.ID || bound.NamespaceUID != "ns9" || bound.ObjectUID != "uid9" {
		t.Errorf("bound %+v, %v", bound, err)
	}
}

func TestEnsure_RestoreFromMovesAnAccount(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	first := retain(t, r, object("team", "demo", "ns1", "uid1"))

	renamed := object("team", "renamed", "ns1", "uid2")
	renamed.Binding.RestoreFrom = first.ID.String()
	if bound, err := r.Ensure(t.Context(), renamed); err != nil || bound.ID != first.ID || bound.Name != "renamed" || bound.Bucket != first.Bucket {
		t.Fatalf("within the namespace: %+v, %v", bound, err)
	}
	closeAccount(t, r, first.ID)
	first = retained(t, r, first.ID)

	thief := object("other", "thief", "ns3", "uid3")
	thief.Binding.RestoreFrom = first.ID.String()
	_, ofAnother := r.Ensure(t.Context(), thief)
	isRetained(t, ofAnother, "claimRef")
	missing := uuid.NewString()
	thief.Binding.RestoreFrom = missing
	_, ofNobody := r.Ensure(t.Context(), thief)
	isRetained(t, ofNobody)
	if got := strings.ReplaceAll(fault.From(ofNobody).Public, missing, first.ID.String()); got != fault.From(ofAnother).Public {
		t.Errorf("the answers tell a retained account from a missing one:\n%s\n%s", fault.From(ofAnother).Public, got)
	}
	thief.Binding.RestoreFrom = "../../x"
	_, err := r.Ensure(t.Context(), thief)
	isRetained(t, err)

	granted := object("other", "heir", "ns3", "uid4")
	granted.Binding = account.Binding{RestoreFrom: first.ID.String(), Granted: []account.Closing{first.Closing()}}
	if bound, err := r.Ensure(t.Context(), granted); err != nil || bound.ID != first.ID || bound.Namespace != "other" || bound.Name != "heir" {
		t.Errorf("with claimRef: %+v, %v", bound, err)
	}
	// An open account is nobody else's, and a MediaAccount that has one ignores restoreFrom.
	thief.Binding = account.Binding{RestoreFrom: first.ID.String(), Granted: []account.Closing{first.Closing()}}
	_, err = r.Ensure(t.Context(), thief)
	isRetained(t, err)
	granted.Binding.RestoreFrom = missing
	if bound, err := r.Ensure(t.Context(), granted); err != nil || bound.ID != first.ID {
		t.Errorf("a bound MediaAccount with another restoreFrom: %+v, %v", bound, err)
	}
}

func TestEnsure_AnAccountThatIsErasedCannotBeRestored(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	first := retain(t, r, object("team", "demo", "ns1", "uid1"))
	exec(t, url, `UPDATE account SET erase_after = now(), erasing_at = now()`)
	again := object("team", "demo", "ns1", "uid2")
	_, err := r.Ensure(t.Context(), again)
	isRetained(t, err, first.ID.String(), "being deleted")
	again.Binding.RestoreFrom = first.ID.String()
	_, err = r.Ensure(t.Context(), again)
	isRetained(t, err, "being deleted")
	if err := r.SetErasure(t.Context(), first.Closing(), false); !fault.Is(err, fault.Conflict) {
		t.Errorf("keeping the media after the erasure began: %v", err)
	}
}

func TestEnsure_ARestoredAccountKeepsItsBucket(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	named := object("team", "demo", "ns1", "uid1")
	named.Bucket = "photos"
	first := retain(t, r, named)
	other := object("team", "demo", "ns1", "uid2")
	other.Bucket = "videos"
	if _, err := r.Ensure(t.Context(), other); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.From(err).Public, "photos") {
		t.Errorf("another bucket: %v", err)
	}
	retained(t, r, first.ID) // rejected, so it is still closed

	tenant := object("team", "tenant", "ns1", "uid3")
	tenant.Bucket = "photos"
	second, err := r.Ensure(t.Context(), tenant)
	must(t, err)
	other.Bucket = "photos"
	if _, err := r.Ensure(t.Context(), other); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.From(err).Public, "bucket photos is owned by another account") {
		t.Errorf("the bucket of another open account: %v", err)
	}
	closeAccount(t, r, second.ID)
	if bound, err := r.Ensure(t.Context(), other); err != nil || bound.ID != first.ID {
		t.Errorf("the same bucket: %+v, %v", bound, err)
	}
}

func TestSetErasure_AppliesToItsClosingOnly(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	first := retain(t, r, object("team", "demo", "ns1", "uid1"))
	former := first.Closing()
	must(t, check.ErrorOf(r.Ensure(t.Context(), object("team", "demo", "ns1", "uid2"))))
	if err := r.SetErasure(t.Context(), former, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("an open account: %v", err)
	}
	closeAccount(t, r, first.ID)
	if err := r.SetErasure(t.Context(), former, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("a former closing: %v", err)
	}
	if now := retained(t, r, first.ID); now.EraseAfter != nil || now.Due {
		t.Errorf("the account is due: %+v", now)
	}
	closing := retained(t, r, first.ID).Closing()
	must(t, r.SetErasure(t.Context(), closing, true))
	if now := retained(t, r, first.ID); !now.Due {
		t.Errorf("the account is not due: %+v", now)
	}
	must(t, r.SetErasure(t.Context(), closing, false))
	if now := retained(t, r, first.ID); now.EraseAfter != nil {
		t.Errorf("the account is still due: %+v", now)
	}
}

func TestCloseOrphan_NeedsTheSameObject(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	made, err := r.Ensure(t.Context(), object("team", "demo", "ns1", "uid1"))
	must(t, err)
	var bound []account.Bound
	each := func(namespaces []string) []account.Bound {
		bound = nil
		must(t, r.EachBound(t.Context(), namespaces, time.Hour, func(b account.Bound) { bound = append(bound, b) }))
		return bound
	}
	if each(nil); len(bound) != 1 || bound[0].ID != made.ID || len(each([]string{"other"})) != 0 || len(each([]string{"team"})) != 1 {
		t.Fatalf("bound accounts: %+v", bound)
	}
	orphan := bound[0]
	must(t, check.ErrorOf(r.Ensure(t.Context(), object("team", "demo", "ns1", "uid2"))))
	if closed, err := r.CloseOrphan(t.Context(), orphan); err != nil || closed {
		t.Errorf("an account that was bound again was closed: %v", err)
	}
	orphan.ObjectUID = "uid2"
	if closed, err := r.CloseOrphan(t.Context(), orphan); err != nil || !closed {
		t.Errorf("not closed: %v", err)
	}
	// After a take-over Git has some time to apply the MediaAccounts.
	must(t, check.ErrorOf(r.Ensure(t.Context(), object("team", "demo", "ns1", "uid3"))))
	for since, want := range map[string]int{"59 minutes": 0, "61 minutes": 1} {
		exec(t, url, `UPDATE account SET namespace_uid = '', object_uid = ''`)
		exec(t, url, `UPDATE installation SET taken_over_at = now() - $1::text::interval`, since)
		if got := len(each(nil)); got != want {
			t.Errorf("%s after a take-over: %d accounts must have an object, want %d", since, got, want)
		}
	}
}
