package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var (
	_ journal.Store      = Journal{}
	_ journal.PurgeStore = Journal{}
)

// JournalState implements journal.Store.
func (s Journal) JournalState(ctx context.Context, accountID uuid.UUID) (journal.State, error) {
	row, err := s.idempotentFor(accountID).JournalState(ctx, accountID)
	if err != nil {
		return journal.State{}, toFault(err, "read the state of a journal")
	}
	return journal.State{Epoch: row.Epoch, Oldest: row.Oldest, Now: row.Now, Retention: durationOf(row.JournalRetention)}, nil
}

// Events implements journal.Store.
func (s Journal) Events(ctx context.Context, q journal.Query) (journal.Read, error) {
	params := sqlgen.EventsParams{AccountID: q.AccountID, Since: q.Since, AfterEpoch: q.After.Epoch, AfterXid: q.After.Transaction, AfterID: q.After.ID,
		Epoch: q.Epoch, Oldest: q.Oldest, Examined: batchSize(q.Examined), AllApps: q.AppID == uuid.Nil, AppID: q.AppID, OfAccount: q.OfAccount, Types: typesOf(q.Types), Most: batchSize(q.Limit)}
	rows, err := repeat(ctx, s.Store, q.AccountID, func(ctx context.Context) ([]sqlgen.EventsRow, error) {
		return sqlgen.New(inOrder{s.pool}).Events(ctx, params)
	})
	if err != nil {
		return journal.Read{}, toFault(err, "read events")
	}
	return readOf(rows, q.Limit), nil
}

// Recent implements journal.Store.
func (s Journal) Recent(ctx context.Context, q journal.RecentQuery) (journal.Read, error) {
	before := q.Before
	if before == (journal.Position{}) {
		before = journal.Position{Epoch: math.MaxInt64, Transaction: math.MaxInt64, ID: math.MaxInt64}
	}
	params := sqlgen.RecentEventsParams{AccountID: q.AccountID, Since: q.Since, BeforeEpoch: before.Epoch, BeforeXid: before.Transaction, BeforeID: before.ID, Examined: batchSize(q.Examined),
		AllApps: q.AppID == uuid.Nil, AppID: q.AppID, OfAccount: q.OfAccount, AllItems: q.ItemID == uuid.Nil, ItemID: q.ItemID, Types: typesOf(q.Types), Most: batchSize(q.Limit)}
	found, err := repeat(ctx, s.Store, q.AccountID, func(ctx context.Context) ([]sqlgen.RecentEventsRow, error) {
		return sqlgen.New(inOrder{s.pool}).RecentEvents(ctx, params)
	})
	if err != nil {
		return journal.Read{}, toFault(err, "read recent events")
	}
	rows := make([]sqlgen.EventsRow, len(found))
	for i, row := range found {
		rows[i] = sqlgen.EventsRow(row)
	}
	return readOf(rows, q.Limit), nil
}

// NamedItems implements journal.Store.
func (s Journal) NamedItems(ctx context.Context, accountID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]journal.NamedItem, error) {
	rows, err := repeat(ctx, s.Store, accountID, func(ctx context.Context) ([]sqlgen.NamedItemsRow, error) {
		return sqlgen.New(s.pool).NamedItems(ctx, sqlgen.NamedItemsParams{AccountID: accountID, Ids: ids})
	})
	if err != nil {
		return nil, toFault(err, "read the names of items")
	}
	items := make(map[uuid.UUID]journal.NamedItem, len(rows))
	for _, row := range rows {
		items[row.ID] = journal.NamedItem{AppID: row.AppID, AppName: row.AppName, Name: row.FileName, Draft: row.Draft, Deleted: row.Deleted}
	}
	return items, nil
}

func typesOf(types []journal.Type) []string {
	names := make([]string, len(types))
	for i, kind := range types {
		names[i] = string(kind)
	}
	return names
}

// readOf returns what a statement has found, which returns up to limit events.
func readOf(rows []sqlgen.EventsRow, limit int) journal.Read {
	read := journal.Read{Events: make([]journal.Event, 0, len(rows))}
	for _, row := range rows {
		if row.Matches {
			read.Events = append(read.Events, eventOf(row))
		}
		if row.Last && len(read.Events) < limit {
			read.Stopped = &journal.Position{Epoch: row.Epoch, Transaction: row.Xid, ID: row.ID, At: row.At}
		}
	}
	return read
}

// inOrder executes statements that read rows in the order of an index. PostgreSQL would sort all rows of an account that has many in a
// partition without statistics.
type inOrder struct{ *pgxpool.Pool }

const inOrderSettings = `-- name: ReadInOrder :exec
SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)`

// Query executes a statement with the settings, in one round trip and one transaction.
func (c inOrder) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	batch := &pgx.Batch{}
	batch.Queue(inOrderSettings)
	batch.Queue(sql, args...)
	results := c.SendBatch(ctx, batch)
	if _, err := results.Exec(); err != nil {
		return nil, cmp.Or(results.Close(), err)
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // nobody closes rows that come with an error, and the batch has the connection
		return nil, err
	}
	return rowsInOrder{rows, results}, nil
}

// rowsInOrder are the rows of a batch, which ends with them.
type rowsInOrder struct {
	pgx.Rows
	batch pgx.BatchResults
}

// Close ends the batch.
func (r rowsInOrder) Close() {
	r.Rows.Close()
	_ = r.batch.Close() // Err has the error of the rows
}

func eventOf(row sqlgen.EventsRow) journal.Event {
	event := journal.Event{Position: journal.Position{Epoch: row.Epoch, Transaction: row.Xid, ID: row.ID, At: row.At}, Type: journal.Type(row.Type),
		AccountID: row.AccountID, AppID: row.AppID.Bytes, ItemID: row.ItemID.Bytes, Sequence: valueOf(row.Sequence), Group: row.GroupLabel,
		Actor: account.ParseActor(row.Actor), Fields: row.Fields}
	if event.Type == journal.UsageThreshold && len(row.Fields) == 1 { // the table has no column of its own for it
		event.Percent, _ = strconv.Atoi(row.Fields[0])
		event.Fields = nil
	}
	if event.Type.OfApproval() && len(row.Fields) > 0 {
		event.ApprovalID, _ = uuid.Parse(row.Fields[0])
		event.Fields = row.Fields[1:]
	}
	return event
}

const (
	// dayFormat is the end of the name of a partition.
	dayFormat = "20060102"
	// partitionLockTimeout bounds how long others wait while the purge waits for those that use the journal.
	partitionLockTimeout = "1s"
)

// PrepareJournal implements journal.PurgeStore.
func (s Journal) PrepareJournal(ctx context.Context, days int) (made int, err error) {
	found, err := s.queries.JournalDays(ctx)
	if err != nil {
		return 0, toFault(err, "read the partitions of the journal")
	}
	there := map[string]bool{}
	for _, partition := range found {
		there[partition.Name] = true
	}
	for i := range days + 1 {
		day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, i)
		if there[partitionOf(day)] {
			continue
		}
		switch err := s.addPartition(ctx, day); {
		case err == nil:
			made++
		case !isBusyPartition(err):
			return made, toFault(err, "make a partition of the journal")
		}
	}
	return made, nil
}

func partitionOf(day time.Time) string { return "journal_" + day.Format(dayFormat) }

// addPartition makes the partition of a day. It is attached, as a table that is made as a partition would lock the journal.
func (s Journal) addPartition(ctx context.Context, day time.Time) error {
	name := pgx.Identifier{partitionOf(day)}.Sanitize()
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			fmt.Sprintf("SELECT set_config('lock_timeout', '%s', true)", partitionLockTimeout),
			fmt.Sprintf("CREATE TABLE %s (LIKE journal INCLUDING DEFAULTS)", name),
			fmt.Sprintf("CREATE INDEX %s ON %s (epoch, xid, id) WHERE type <> ''", pgx.Identifier{partitionOf(day) + "_order"}.Sanitize(), name), // for webhooks of all accounts
			fmt.Sprintf("ALTER TABLE journal ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')", name, day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)),
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// isBusyPartition reports whether a partition was not made, or not dropped, since the journal is in use, since another process has made it,
// or since journal_rest has events of its day. The next call tries again.
func isBusyPartition(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && (failed.Code == "55P03" || failed.Code == "42P07" || failed.Code == "23514")
}

// DropJournal implements journal.PurgeStore.
func (s Journal) DropJournal(ctx context.Context) (dropped int, err error) {
	found, err := s.queries.JournalDays(ctx)
	if err != nil {
		return 0, toFault(err, "read the partitions of the journal")
	}
	for _, partition := range found {
		text, _ := strings.CutPrefix(partition.Name, "journal_")
		day, err := time.Parse(dayFormat, text)
		if err != nil || day.AddDate(0, 0, 1).After(partition.Cutoff) {
			continue // journal_rest, or a day that can be read
		}
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf("SELECT set_config('lock_timeout', '%s', true)", partitionLockTimeout)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "DROP TABLE "+pgx.Identifier{partition.Name}.Sanitize())
			return err
		})
		switch {
		case err == nil:
			dropped++
		case !isBusyPartition(err):
			return dropped, toFault(err, "drop a partition of the journal")
		}
	}
	return dropped, nil
}

// ExpireJournal implements journal.PurgeStore.
func (s Journal) ExpireJournal(ctx context.Context, batch int) (int, error) {
	deleted, err := s.queries.ExpireJournal(ctx, batchSize(batch))
	return int(deleted), toFault(err, "delete events")
}
