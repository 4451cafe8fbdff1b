package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/settings"
)

// Layers implements settings.Store.
func (s Settings) Layers(ctx context.Context, accountID uuid.UUID) (settings.Layers, error) {
	layers, err := readLayers(ctx, s.idempotent, accountID)
	return layers, toFault(err, "read settings")
}

func readLayers(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID) (settings.Layers, error) {
	row, err := q.SettingsLayers(ctx, accountID)
	if err != nil {
		return settings.Layers{}, err
	}
	return decodeLayers(row.PinnedBy, row.Pinned, row.Tenant)
}

func decodeLayers(pinnedBy *string, pinned, tenant []byte) (layers settings.Layers, err error) {
	if pinnedBy != nil {
		layers.PinnedBy = *pinnedBy
	}
	if layers.Pinned, err = decodeLayer(pinned); err != nil {
		return settings.Layers{}, err
	}
	layers.Tenant, err = decodeLayer(tenant)
	return layers, err
}

// State implements settings.Store.
func (s Settings) State(ctx context.Context, accountID uuid.UUID) (settings.State, error) {
	row, err := s.queries.SettingsState(ctx, accountID)
	if err != nil {
		return settings.State{}, toFault(err, "read settings")
	}
	layers, err := decodeLayers(row.PinnedBy, row.Pinned, row.Tenant)
	return settings.State{Layers: layers, ObjectUID: row.ObjectUid, Version: row.Version}, toFault(err, "read settings")
}

// UpdateTenant implements settings.Store.
func (s Settings) UpdateTenant(ctx context.Context, accountID uuid.UUID, by account.Actor, decide func(settings.Layers) (settings.Layer, error)) (settings.Layers, error) {
	return s.updateTenant(ctx, accountID, by, func(*sqlgen.Queries) error { return nil }, decide)
}

// UpdateTenantOnce implements settings.Store.
func (s Settings) UpdateTenantOnce(ctx context.Context, accountID uuid.UUID, by account.Actor, step account.ApprovedStep, decide func(settings.Layers) (settings.Layer, error)) (settings.Layers, error) {
	return s.updateTenant(ctx, accountID, by, func(q *sqlgen.Queries) error {
		if ended, err := q.EndStep(ctx, step.ID); err != nil || ended == 0 {
			return cmp.Or(err, account.ErrStepEnded)
		}
		state, err := q.SettingsState(ctx, accountID)
		if err == nil && state.Version != step.Version {
			return account.ErrItemChanged
		}
		return err
	}, decide)
}

// updateTenant updates the settings of a tenant, if permit, which is called while no other call can change them, returns no error.
func (s Settings) updateTenant(ctx context.Context, accountID uuid.UUID, by account.Actor, permit func(*sqlgen.Queries) error, decide func(settings.Layers) (settings.Layer, error)) (settings.Layers, error) {
	var layers settings.Layers
	err := s.inTx(ctx, "update settings", func(q *sqlgen.Queries) error {
		if _, err := q.LockAccountForSettings(ctx, accountID); err != nil {
			return err
		}
		if err := permit(q); err != nil {
			return err
		}
		var err error
		if layers, err = readLayers(ctx, q, accountID); err != nil {
			return err
		}
		change, err := decide(layers)
		if err != nil || change == (settings.Layer{}) {
			return err
		}
		fields, err := json.Marshal(change)
		if err != nil {
			return err
		}
		if fields, err = q.SetTenantSettings(ctx, sqlgen.SetTenantSettingsParams{AccountID: accountID, Fields: fields, Actor: by.Text()}); err != nil {
			return err
		}
		layers.Tenant, err = decodeLayer(fields)
		return err
	})
	return layers, err
}

// Pin implements settings.Store.
func (s Settings) Pin(ctx context.Context, accountID uuid.UUID, pins settings.Layer, by settings.Object) error {
	// A lock of the account would use a transaction id, also if the pins are the same.
	before, err := s.queries.Pins(ctx, accountID)
	if err == nil && before.PinnedBy == by.Name && before.ObjectUid == by.UID {
		if same, err := decodeLayer(before.Fields); err == nil && reflect.DeepEqual(same, pins) {
			return nil
		}
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return toFault(err, "read the pins")
	}
	fields, err := json.Marshal(pins)
	if err != nil {
		return err
	}
	_, err = s.queries.SetPins(ctx, sqlgen.SetPinsParams{ID: accountID, PinnedBy: by.Name, ObjectUid: by.UID, Fields: fields})
	return toFault(err, "pin settings")
}

// Unpin implements settings.Store.
func (s Settings) Unpin(ctx context.Context, uid string) error {
	return toFault(s.queries.RemovePins(ctx, uid), "unpin settings")
}

// PinnedBy implements settings.Store.
func (s Settings) PinnedBy(ctx context.Context) ([]settings.Object, error) {
	rows, err := s.queries.PinnedBy(ctx)
	if err != nil {
		return nil, toFault(err, "list pins")
	}
	objects := make([]settings.Object, 0, len(rows))
	for _, row := range rows {
		objects = append(objects, settings.Object{Name: row.PinnedBy, UID: row.ObjectUid})
	}
	return objects, nil
}

// decodeLayer decodes the JSON form of a layer, nil when the layer is not set. Fields of a
// later version are ignored; values that this version would not have stored are an error.
func decodeLayer(fields []byte) (settings.Layer, error) {
	var layer settings.Layer
	if fields == nil {
		return layer, nil
	}
	if err := json.Unmarshal(fields, &layer); err != nil {
		return settings.Layer{}, fmt.Errorf("decode stored settings: %w", err)
	}
	if err := layer.Validate(); err != nil {
		return settings.Layer{}, fmt.Errorf("stored settings: %v", err) //nolint:errorlint // the caller sent nothing invalid
	}
	return layer, nil
}
