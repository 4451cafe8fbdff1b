package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// gateConstraint is the constraint that no sealed item waits for a result, or was rejected.
const gateConstraint = "item_gate"

// gateOf returns the gate in a row.
func gateOf(text []byte) (gate account.Gate) {
	if len(text) == 0 || json.Unmarshal(text, &gate) != nil {
		return account.Gate{}
	}
	return gate
}

// gateJSON returns the column of a gate; nil if there is none.
func gateJSON(gate account.Gate) []byte {
	if !gate.On() {
		return nil
	}
	text, _ := json.Marshal(gate) // a struct of texts, numbers and booleans
	return text
}

// errSealRepeated is the fault of a seal during which the item changed again and again.
var errSealRepeated = fault.New(fault.Unavailable, "the file was changed by other requests: try again")

// sealGated seals an item of an account that checks files before, or records that it is sealed once it may be. Between two statements a
// result may come, so it looks again.
func (s Items) sealGated(ctx context.Context, scope media.Scope, id uuid.UUID, now time.Time) (media.Item, error) {
	for range 4 {
		item, err := readItem(ctx, s.idempotent, scope, id)
		switch {
		case errors.Is(err, errItemNotFound):
			return media.Item{}, s.rejection(ctx, scope, id)
		case err != nil || !item.Draft() || item.Check == media.CheckSealWanted:
			return item, err
		case item.Check == media.CheckRejected:
			return media.Item{}, media.ErrUnscannable
		case item.Check == media.CheckPassed:
			if item, err = s.seal(ctx, scope, id, now); errors.Is(err, errItemNotFound) || err == nil && item.Draft() {
				continue
			}
			return item, toFault(err, "seal item")
		}
		wanted, err := s.idempotent.WantSeal(ctx, sqlgen.WantSealParams{AppID: scope.AppID, ID: id, Actor: scope.Actor.Text()})
		if err == nil {
			return itemOf(sqlgen.Item(wanted)), nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return media.Item{}, toFault(err, "record a seal")
		}
	}
	return media.Item{}, errSealRepeated
}

// rejection returns why there is no item to be sealed: something was found in its file, or it is not found.
func (s Items) rejection(ctx context.Context, scope media.Scope, id uuid.UUID) error {
	finding, err := s.idempotent.FindingOf(ctx, sqlgen.FindingOfParams{AppID: scope.AppID, ItemID: id})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errItemNotFound
	case err != nil:
		return toFault(err, "look for a file in quarantine")
	}
	return media.FoundFault(finding)
}
