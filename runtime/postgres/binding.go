package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// bindLock is the class of the advisory locks that serialize the bindings to one namespace and
// name. The number is arbitrary and must never change.
const bindLock = 526_873

// UpdateAccount implements account.Store.
func (s Accounts) UpdateAccount(ctx context.Context, want account.Account) (account.Account, error) {
	found, err := s.queries.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: want.Namespace, Name: want.Name})
	if err == nil && (found.ObjectUid != want.ObjectUID || found.NamespaceUid == "") {
		err = pgx.ErrNoRows
	}
	if err == nil {
		found, err = updateAccount(ctx, s.queries, found, want)
	}
	if err != nil {
		return account.Account{}, toFault(err, "update account")
	}
	if found.Suspended { // also if an earlier call, which failed here, has suspended it
		return accountOf(found), s.awaitItemCaches(ctx)
	}
	return accountOf(found), nil
}

// updateAccount writes the fields of want that a MediaAccount can change, if one differs. It
// returns pgx.ErrNoRows if the account was closed meanwhile.
func updateAccount(ctx context.Context, q *sqlgen.Queries, found sqlgen.Account, want account.Account) (sqlgen.Account, error) {
	if want.Bucket != "" && want.Bucket != found.Bucket {
		return sqlgen.Account{}, fault.New(fault.Conflict,
			"the media of this account is in bucket %s, but spec.storage.bucket.name is %s; set it to %s, or remove it", found.Bucket, want.Bucket, found.Bucket)
	}
	same := found.DisplayName == want.DisplayName && slices.Equal(found.Owners, want.Owners) && found.MaxStorage == want.MaxStorage &&
		found.MaxUploadSize == want.MaxUploadSize && found.Suspended == want.Suspended && toolPolicyOf(found).Equal(want.ToolPolicy) &&
		(found.CorsOrigins == nil) == (want.Origins == nil) && slices.Equal(found.CorsOrigins, want.Origins) && undoOf(found) == want.Undo && durationOf(found.JournalRetention) == want.Journal && found.JournalFullAddresses == want.FullAddresses && gateOf(found.Gate) == want.Gate && searchOf(found.Search).Equal(want.Search) && found.KeepLocation == want.KeepLocation
	if same {
		return found, nil
	}
	updated, err := q.UpdateAccount(ctx, sqlgen.UpdateAccountParams{
		ID: found.ID, ObjectUid: want.ObjectUID, DisplayName: want.DisplayName, Owners: want.Owners,
		MaxStorage: want.MaxStorage, MaxUploadSize: want.MaxUploadSize, Suspended: want.Suspended,
		McpReadOnly: want.ToolPolicy.ReadOnly, McpTools: want.ToolPolicy.Tools, McpToolsets: want.ToolPolicy.Toolsets, CorsOrigins: want.Origins,
		UndoWindow: secondsOf(want.Undo.Window), UndoFor: want.Undo.For, JournalRetention: secondsOf(want.Journal), JournalFullAddresses: want.FullAddresses, Gate: gateJSON(want.Gate), Search: searchJSON(want.Search), KeepLocation: want.KeepLocation, Approval: approvalJSON(want.ToolPolicy.Approval), Ceilings: ceilingsJSON(want.ToolPolicy.Ceilings),
	})
	if errors.Is(err, pgx.ErrNoRows) { // another caller wrote the same values meanwhile
		return q.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: found.Namespace, Name: found.Name})
	}
	return updated, err
}

// BindAccount implements account.Store.
func (s Accounts) BindAccount(ctx context.Context, want account.Account, provision account.Provision, binding account.Binding) (account.Account, error) {
	var bound sqlgen.Account
	bucket := provision.Bucket
	var rejected error // the closing of an orphan is committed, although the binding is rejected
	err := s.inTx(ctx, "bind account", func(q *sqlgen.Queries) error {
		if err := q.LockName(ctx, sqlgen.LockNameParams{Class: bindLock, Namespace: want.Namespace, Name: want.Name}); err != nil {
			return err
		}
		found, err := openAccount(ctx, q, want)
		if errors.Is(err, pgx.ErrNoRows) {
			found, err, rejected = closedAccount(ctx, q, want, binding)
		}
		switch {
		case rejected != nil:
			return nil
		case errors.Is(err, pgx.ErrNoRows):
			bound, err = insertAccount(ctx, q, want, provision)
			return err
		case err != nil:
			return err
		}
		bucket = found.Bucket
		bound, err = bindAccount(ctx, q, found, want)
		return err
	})
	if violates(err, "account_open_bucket") {
		err = fault.Wrap(err, fault.Conflict, "bucket %s is owned by another account", bucket)
	}
	if err == nil && bound.Suspended {
		err = s.awaitItemCaches(ctx)
	}
	return accountOf(bound), errors.Join(err, rejected)
}

// openAccount locks and returns the open account of want's namespace and name. If it belongs to
// another namespace of that name, its MediaAccount is gone: it is closed as an orphan.
func openAccount(ctx context.Context, q *sqlgen.Queries, want account.Account) (sqlgen.Account, error) {
	open, err := q.LockOpenAccount(ctx, sqlgen.LockOpenAccountParams{Namespace: want.Namespace, Name: want.Name})
	if err != nil || open.NamespaceUid == "" || open.NamespaceUid == want.NamespaceUID || open.ObjectUid == want.ObjectUID {
		return open, err
	}
	if err := closeOrphan(ctx, q, open.ID); err != nil {
		return sqlgen.Account{}, err
	}
	return sqlgen.Account{}, pgx.ErrNoRows
}

// closedAccount locks and returns the closed account that binding chooses for want;
// pgx.ErrNoRows if want gets a new one. rejected is the Conflict of binding.
func closedAccount(ctx context.Context, q *sqlgen.Queries, want account.Account, binding account.Binding) (found sqlgen.Account, err, rejected error) {
	rows, err := q.LockClosedAccounts(ctx, sqlgen.LockClosedAccountsParams{Namespace: want.Namespace, Name: want.Name, Ids: binding.AccountIDs()})
	if err != nil {
		return sqlgen.Account{}, err, nil
	}
	closed := make([]account.Retained, 0, len(rows))
	for _, row := range rows {
		closed = append(closed, account.Retained{Account: accountOf(row.Account), InstallationID: row.InstallationID})
	}
	chosen, ok, rejected := binding.Choose(want, closed)
	if !ok {
		return sqlgen.Account{}, pgx.ErrNoRows, rejected
	}
	at := slices.IndexFunc(rows, func(row sqlgen.LockClosedAccountsRow) bool { return row.Account.ID == chosen.ID })
	return rows[at].Account, nil, nil
}

// bindAccount opens the account, if it is closed, for the MediaAccount of want, and updates it.
func bindAccount(ctx context.Context, q *sqlgen.Queries, found sqlgen.Account, want account.Account) (sqlgen.Account, error) {
	bound := found.ClosedAt == nil && found.NamespaceUid == want.NamespaceUID && found.ObjectUid == want.ObjectUID
	if !bound {
		var err error
		if found, err = q.BindAccount(ctx, sqlgen.BindAccountParams{
			ID: found.ID, Namespace: want.Namespace, Name: want.Name, NamespaceUid: want.NamespaceUID, ObjectUid: want.ObjectUID,
		}); err != nil {
			return sqlgen.Account{}, err
		}
	}
	return updateAccount(ctx, q, found, want)
}

// violates reports whether a unique index rejected the row.
func violates(err error, index string) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.ConstraintName == index
}

// insertAccount inserts an account with its apps and a pending key for each, in one statement.
func insertAccount(ctx context.Context, q *sqlgen.Queries, want account.Account, provision account.Provision) (sqlgen.Account, error) {
	params := sqlgen.InsertAccountParams{
		ID: want.ID, Namespace: want.Namespace, Name: want.Name, NamespaceUid: want.NamespaceUID, ObjectUid: want.ObjectUID,
		DisplayName: want.DisplayName, Owners: want.Owners, MaxStorage: want.MaxStorage, MaxUploadSize: want.MaxUploadSize, Bucket: provision.Bucket,
		Suspended: want.Suspended, McpReadOnly: want.ToolPolicy.ReadOnly, McpTools: want.ToolPolicy.Tools, McpToolsets: want.ToolPolicy.Toolsets, CorsOrigins: want.Origins,
		UndoWindow: secondsOf(want.Undo.Window), UndoFor: want.Undo.For, JournalRetention: secondsOf(want.Journal), JournalFullAddresses: want.FullAddresses, Gate: gateJSON(want.Gate), Search: searchJSON(want.Search), KeepLocation: want.KeepLocation, Approval: approvalJSON(want.ToolPolicy.Approval), Ceilings: ceilingsJSON(want.ToolPolicy.Ceilings), Generation: provision.Generation,
	}
	for _, app := range provision.Apps {
		hash := app.Secret.Hash()
		params.AppIds, params.AppNames = append(params.AppIds, app.ID), append(params.AppNames, app.Name)
		params.KeyIds, params.Hashes = append(params.KeyIds, app.KeyID), append(params.Hashes, hash[:])
	}
	inserted, err := q.InsertAccount(ctx, params)
	return sqlgen.Account(inserted), err
}
