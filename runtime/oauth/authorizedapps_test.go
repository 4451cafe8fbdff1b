package oauth_test

import (
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

func TestRevokeApps_RevokesOwnGrantsOnly(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{owner, "bo@example.org"} })
	mine := w.authorize(t)
	b := w.startLogin(t, authorizationRequest())
	b.logIn(t, "bo@example.org")
	code, err := w.Approve(t.Context(), b.session(t), w.tenant.Account.ID)
	must(t, err)
	theirs, err := w.ExchangeCode(t.Context(), tokenRequest(code))
	must(t, err)
	alone := w.startLogin(t, nil)
	if _, err := w.AuthorizedApps(t.Context(), alone.session(t)); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("before the login: %v", err)
	}
	alone.logIn(t, owner)
	found, err := w.AuthorizedApps(t.Context(), alone.session(t))
	must(t, err)
	if len(found) != 1 || found[0].ClientName != "Test" || found[0].AccountName != "studio" {
		t.Fatalf("authorized applications: %+v", found)
	}
	if n, err := w.RevokeApps(t.Context(), alone.session(t), uuid.New()); err != nil || n != 0 {
		t.Errorf("one that does not exist: %d %v", n, err)
	}
	if n, err := w.RevokeApps(t.Context(), alone.session(t), uuid.Nil); err != nil || n != 1 {
		t.Errorf("all: %d %v", n, err)
	}
	if w.isAccepted(t, mine.Access) || !w.isAccepted(t, theirs.Access) {
		t.Error("revoking own grants must revoke those and no others")
	}
}
