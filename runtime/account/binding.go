package account

import (
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Closing identifies one closing of an account. An account that was opened and closed again
// has another one, so that a decision about the earlier closing does not apply to it.
type Closing struct {
	InstallationID uuid.UUID
	AccountID      uuid.UUID
	ClosedAt       time.Time
}

// Equal reports whether c and other are the same closing.
func (c Closing) Equal(other Closing) bool {
	return c.AccountID == other.AccountID && c.InstallationID == other.InstallationID && c.ClosedAt.Equal(other.ClosedAt)
}

// Binding says which retained account a MediaAccount without an account may take over.
type Binding struct {
	// RestoreFrom is the id of the retained account that the MediaAccount names; empty = none.
	RestoreFrom string
	// Granted are the accounts that a cluster admin grants to the MediaAccount.
	Granted []Closing
	// Released are the accounts that the MediaAccount neither gets by its name nor waits for.
	Released []Closing
}

// Choose returns the account of closed that want takes over, or false if want gets a new
// account. closed are the closed accounts of want's namespace and name, and those that b names.
// It returns a Conflict if want must wait for a decision, or for the end of a deletion.
func (b Binding) Choose(want Account, closed []Retained) (chosen Retained, ok bool, err error) {
	closed = slices.Clone(closed)
	slices.SortFunc(closed, func(x, y Retained) int { return y.ClosedAt.Compare(*x.ClosedAt) })
	if b.RestoreFrom != "" {
		chosen, err = b.restore(want, closed)
		return chosen, err == nil, err
	}
	named := func(a Retained) bool {
		return a.Namespace == want.Namespace && a.Name == want.Name && !slices.ContainsFunc(b.Released, a.Closing().Equal)
	}
	own := func(a Retained) bool { return named(a) && a.NamespaceUID == want.NamespaceUID }
	kept := func(a Retained) bool { return a.ErasingAt == nil }
	if a, ok := first(closed, func(a Retained) bool { return b.grants(a) && kept(a) }); ok {
		return a, true, nil
	}
	if a, ok := first(closed, func(a Retained) bool { return own(a) && kept(a) }); ok {
		return a, true, nil
	}
	if a, ok := first(closed, func(a Retained) bool { return own(a) || b.grants(a) }); ok {
		return Retained{}, false, a.erasing()
	}
	if a, ok := first(closed, func(a Retained) bool { return named(a) && kept(a) }); ok {
		return Retained{}, false, a.reserved(want)
	}
	return Retained{}, false, nil
}

// first returns the first account that matches, and whether there is one.
func first(accounts []Retained, matches func(Retained) bool) (Retained, bool) {
	if at := slices.IndexFunc(accounts, matches); at >= 0 {
		return accounts[at], true
	}
	return Retained{}, false
}

// restore returns the account that the MediaAccount names. The answer for an account that it
// may not take over is that for a missing one.
func (b Binding) restore(want Account, closed []Retained) (Retained, error) {
	chosen, ok := first(closed, func(a Retained) bool {
		return a.ID.String() == b.RestoreFrom && (a.NamespaceUID == want.NamespaceUID || b.grants(a))
	})
	if !ok {
		return Retained{}, fault.WithReason(b.notPermitted(want), fault.Retained)
	}
	if chosen.ErasingAt != nil {
		return Retained{}, chosen.erasing()
	}
	return chosen, nil
}

// notPermitted returns the Conflict of a MediaAccount that names an account it may not take over.
// A cluster admin copies the command into a shell, so that it never contains the tenant's text:
// the id is printed as it was parsed.
func (b Binding) notPermitted(want Account) error {
	id, err := uuid.Parse(b.RestoreFrom)
	if err != nil {
		return fault.New(fault.Conflict, "spec.restoreFrom is not the id of a RetainedMediaAccount, which is a UUID")
	}
	return fault.New(fault.Conflict,
		"spec.restoreFrom names RetainedMediaAccount %s, which does not exist or may not be restored to this MediaAccount; a cluster admin permits it with%s", id, claimHint(id, want))
}

func (b Binding) grants(a Retained) bool { return slices.ContainsFunc(b.Granted, a.Closing().Equal) }

// AccountIDs returns the ids of the accounts that b names beside those of the MediaAccount's
// own namespace and name.
func (b Binding) AccountIDs() []uuid.UUID {
	var ids []uuid.UUID
	if id, err := uuid.Parse(b.RestoreFrom); err == nil {
		ids = append(ids, id)
	}
	for _, granted := range b.Granted {
		ids = append(ids, granted.AccountID)
	}
	return ids
}

// erasing returns the Conflict of a MediaAccount whose account is being erased.
func (a Retained) erasing() error {
	return fault.WithReason(fault.New(fault.Conflict,
		"the media of retained account %s is being deleted and cannot be restored any more; this MediaAccount continues when that has ended", a.ID), fault.Retained)
}

// reserved returns the Conflict of a MediaAccount whose name belongs to the account of an
// earlier namespace.
func (a Retained) reserved(want Account) error {
	return fault.WithReason(fault.New(fault.Conflict,
		"RetainedMediaAccount %s has the media of an earlier namespace %s; a cluster admin restores it with%s; or starts with an empty account with: %s",
		a.ID, a.Namespace, claimHint(a.ID, want), patchCommand(a.ID, `{"spec":{"reserveName":false}}`)), fault.Retained)
}

// dnsLabel matches what the API server accepts as the name of a namespace, and of a MediaAccount.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// claimHint returns the command that permits the MediaAccount of want to take over the account. A
// namespace or name that the API server does not accept is not printed in a command.
func claimHint(id uuid.UUID, want Account) string {
	if !dnsLabel.MatchString(want.Namespace) || !dnsLabel.MatchString(want.Name) {
		return " spec.claimRef"
	}
	return ": " + patchCommand(id, `{"spec":{"claimRef":{"namespace":"`+want.Namespace+`","name":"`+want.Name+`"}}}`)
}

func patchCommand(id uuid.UUID, patch string) string {
	return "kubectl patch retainedmediaaccount " + id.String() + " --type=merge -p '" + patch + "'"
}
