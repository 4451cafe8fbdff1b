package postgres

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// The sub-stores of a Store. All are safe for concurrent use.
type (
	// Accounts keeps accounts, their apps and keys, and what an operator decides about them.
	Accounts struct{ *Store }
	// Items keeps items, the queue of removals, and what the purge ends.
	Items struct{ *Store }
	// Uploads keeps uploads, from their reservation to the item.
	Uploads struct{ *Store }
	// Pictures keeps renditions, and what is made in advance.
	Pictures struct{ *Store }
	// Logins keeps sessions of logins, clients, grants and tokens.
	Logins struct{ *Store }
	// Installations keeps the identity of the installation and its processes, and what is exported of it as metrics.
	Installations struct{ *Store }
	// Consistency compares the rows with the objects, and repairs counters.
	Consistency struct{ *Store }
	// Credentials finds who a key or an access token is of.
	Credentials struct{ *Store }
	// Fetches keeps uploads from a URL.
	Fetches struct{ *Store }
	// Settings keeps the settings of accounts.
	Settings struct{ *Store }
	// Tasks keeps the tasks of background work.
	Tasks struct{ *Store }
	// Journal keeps the events of accounts.
	Journal struct{ *Store }
	// Gates keeps what waits for a result, and the quarantine.
	Gates struct{ *Store }
	// Approvals keeps what waits for the yes of an owner.
	Approvals struct{ *Store }
	// Handovers keeps the files that assistants request of a person.
	Handovers struct{ *Store }
	// Webhooks keeps webhooks, and finds the events that they send.
	Webhooks struct{ *Store }
	// CDN keeps what a CDN has to forget.
	CDN struct{ *Store }
)

var (
	_ account.Store              = Accounts{}
	_ settings.Store             = Settings{}
	_ media.Store                = Items{}
	_ media.PurgeStore           = Items{}
	_ upload.Store               = Uploads{}
	_ consistency.Store          = Consistency{}
	_ consistency.AccountStore   = Consistency{}
	_ oauth.Store                = Logins{}
	_ oauth.PurgeStore           = Logins{}
	_ installation.ResumeStore   = Installations{}
	_ installation.InstanceStore = Installations{}
)

// ItemForDelivery is that of Items.
func (s Pictures) ItemForDelivery(ctx context.Context, id uuid.UUID) (media.Item, media.Owner, error) {
	return s.Items.ItemForDelivery(ctx, id)
}

// FindPrincipalByKeyID is that of Credentials.
func (s Fetches) FindPrincipalByKeyID(ctx context.Context, id uuid.UUID) (account.Principal, error) {
	return s.Credentials.FindPrincipalByKeyID(ctx, id)
}

// FindAccount is that of Accounts.
func (s Consistency) FindAccount(ctx context.Context, namespace, name string) (account.Account, error) {
	return s.Accounts.FindAccount(ctx, namespace, name)
}

// Installation is that of Installations.
func (s Consistency) Installation(ctx context.Context) (installation.State, error) {
	return s.Installations.Installation(ctx)
}

// FinishRemovals is that of Items.
func (s Consistency) FinishRemovals(ctx context.Context, ids []int64) error {
	return s.Items.FinishRemovals(ctx, ids)
}

// Unpin is that of Settings.
func (s Installations) Unpin(ctx context.Context, uid string) error {
	return s.Settings.Unpin(ctx, uid)
}
