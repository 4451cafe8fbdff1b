package account

import "github.com/google/uuid"

// Provision is what is created together with a new account, in one transaction.
type Provision struct {
	// AccountID is the id of the new account; Ensure makes one if it is zero.
	AccountID uuid.UUID
	// Bucket is set by Ensure.
	Bucket string
	// Generation is that of the keys.
	Generation int64
	// Apps are opened, each with a pending key.
	Apps []NewApp
}

// NewApp is an app of a new account.
type NewApp struct {
	ID     uuid.UUID
	Name   string
	KeyID  uuid.UUID
	Secret KeySecret
}

// NewProvision returns the provision of an account with the Default App and the named apps.
func (r *Registry) NewProvision(names []string, generation int64) (Provision, error) {
	provision := Provision{Generation: generation}
	var err error
	if provision.AccountID, err = r.store.Cell().NewID(); err != nil {
		return Provision{}, err
	}
	for _, name := range append([]string{DefaultApp}, names...) {
		app := NewApp{Name: name}
		if app.ID, err = r.store.Cell().NewID(); err != nil {
			return Provision{}, err
		}
		if app.KeyID, err = r.store.Cell().NewID(); err != nil {
			return Provision{}, err
		}
		if app.Secret, err = NewKeySecret(r.store.Cell()); err != nil {
			return Provision{}, err
		}
		provision.Apps = append(provision.Apps, app)
	}
	return provision, nil
}
