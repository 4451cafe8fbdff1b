package postgres

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/media"
)

// HoldBatches calls hold before each batch, with the number of its uploads. No batch is late.
func HoldBatches(s *Store, hold func(batch string, uploads int)) {
	openUploads, commitUploads := s.openBatch.exec, s.commitBatch.exec
	s.openBatch.lateAfter, s.commitBatch.lateAfter = time.Hour, time.Hour
	s.openBatch.exec = func(ctx context.Context, lockTimeout time.Duration, requests []openRequest) ([]bool, error) {
		hold("open", len(requests))
		return openUploads(ctx, lockTimeout, requests)
	}
	s.commitBatch.exec = func(ctx context.Context, lockTimeout time.Duration, items []draft) ([]bool, error) {
		hold("commit", len(items))
		return commitUploads(ctx, lockTimeout, items)
	}
}

// FinishLockTimeout sets how long the end of a rendition waits for locks.
func FinishLockTimeout(s *Store, timeout time.Duration) { s.finishLockTimeout = timeout }

// EraseTimeout sets how long a statement of an erasure may take.
func EraseTimeout(s *Store, timeout time.Duration) { s.eraseTimeout = timeout }

// ErasePlanner are the settings of an erasure, EraseBatch is the batch of one, and InOrderSettings are those of a read in order.
const (
	ErasePlanner     = erasePlanner
	InOrderSettings  = inOrderSettings
	MaintenancePlans = `SELECT set_config('plan_cache_mode', '` + maintenancePlans + `', true)`
	EraseBatch       = eraseBatch
)

// Setting returns a setting of a session of the pool.
func Setting(ctx context.Context, s *Store, name string) (value string, err error) {
	err = s.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}

// ListStatement is listStatement, for tests that explain it.
var ListStatement = listStatement

// BatchPause is batchPause.
func BatchPause(s *Store, took time.Duration) time.Duration { return s.Uploads.batchPause(took) }

// HoldLookUps calls hold before each batch of look-ups of keys. No batch is late.
func HoldLookUps(s *Store, hold func(lookUps int)) {
	find := s.principalBatch.exec
	s.principalBatch.lateAfter = time.Hour
	s.principalBatch.exec = func(ctx context.Context, lockTimeout time.Duration, lookUps []*principalLookup) ([]bool, error) {
		hold(len(lookUps))
		return find(ctx, lockTimeout, lookUps)
	}
}

// QueuedLookUps returns how many look-ups wait for their batch.
func QueuedLookUps(s *Store) int { return s.principalBatch.queued() }

// MigrateFiles is MigrateWithin with migrations of its own.
func MigrateFiles(ctx context.Context, cfg Config, wait time.Duration, files fs.FS, log *slog.Logger) error {
	return migrateWithin(ctx, cfg, wait, log, func(ctx context.Context, cfg Config, log *slog.Logger) error {
		return migrateFiles(ctx, cfg, files, log)
	})
}

// LatestVersion returns the version of the newest migration.
func LatestVersion() int64 { return latestVersion() }

// BoundSearches sets the bounds of searches: of the first scan, of what is gathered, of the last scan and
// of a count.
func BoundSearches(s *Store, first, gathered, last, counted int) {
	s.searches = searchBounds{firstScan: first, gathered: gathered, lastScan: last, counted: counted, groupRows: groupRows, timeout: time.Minute}
}

// BoundGroups sets how many rows a request for groups examines.
func BoundGroups(s *Store, rows int) { s.searches.groupRows = rows }

// GroupsStatement and KeysStatement are those of groups and of keys of metadata.
func GroupsStatement(scope media.Scope) Statement {
	return Statement{groupsSQL, []any{scope.AppID, "", "", groupRows}, groupSettings}
}

// KeysStatement is GroupsStatement for the keys of metadata.
func KeysStatement(scope media.Scope, items int) Statement {
	return Statement{keysSQL, []any{scope.AppID, items, media.MaxMetadataKeys}, ""}
}

// CaptureText returns the column capture of what a file says.
func CaptureText(c capture.Capture) string { return captureText(c) }

// SearchStatements returns all statements that a search may need, by what they do, with their arguments. They have no timeout:
// EXPLAIN on a busy machine takes longer than a search may, and a timeout during the ROLLBACK closes the connection.
func SearchStatements(scope media.Scope, query media.Query, after *media.Position, wanted int) map[string]Statement {
	search := newSearch(scope, query, after)
	statements := map[string]Statement{}
	add := func(name, settings string) func(sql string, args []any) {
		return func(sql string, args []any) { statements[name] = Statement{sql, args, settings} }
	}
	bounds := SearchConfig{}.bounds()
	bounds.timeout = 0
	if query.Drafts {
		add("drafts", draftSettings)(search.inOrder(bounds.firstScan+wanted, wanted))
		return statements
	}
	if len(query.Words.Texts) > 0 {
		words := indexWords(query.Words)
		add("by words", bounds.settings())(search.byWords(words, bounds.gathered, wanted))
		if search.byTime() {
			part := search
			part.part = true
			add("by words of a part", bounds.settings())(part.byWords(words, bounds.gathered, wanted))
		}
		add("count by words", bounds.settings())(search.countByWords(words, bounds.counted))
		add("count words", "")(search.countWords(words, bounds.firstScan))
	}
	add("first scan", "")(search.inOrder(bounds.firstScan+wanted, wanted))
	if len(termsOf(query.Search)) > 0 {
		add("by terms", bounds.settings())(search.byTerms(bounds.gathered, wanted))
		add("count by terms", bounds.settings())(search.countByTerms(bounds.counted))
	}
	for _, path := range search.capturePaths() {
		add(path.name, "")(search.gathered("FindItems"+path.name, path.sql, append(search.args(bounds.gathered, wanted), path.args...)))
		add("count "+path.name, "")(search.countGathered("CountMatches"+path.name, path.sql, append(search.args(bounds.counted, 0), path.args...)))
	}
	if !search.byTime() {
		add("in time", "")(search.inTime(bounds.firstScan, wanted))
	}
	if query.Order == (media.Order{}) {
		add("count in order", "")(search.countInOrder(bounds.firstScan))
	}
	return statements
}

// Statement is one with its arguments, and the statement of its settings.
type Statement struct {
	SQL      string
	Args     []any
	Settings string
}

// OpenTogether opens an upload of each scope by one statement.
func (s Uploads) OpenTogether(ctx context.Context, scopes []media.Scope) error {
	requests := make([]openRequest, len(scopes))
	for i, scope := range scopes {
		requests[i] = openRequest{itemID: uuid.New(), accountID: scope.AccountID, appID: scope.AppID, bytes: 1, leaseEnds: time.Now().Add(time.Hour)}
	}
	_, err := s.openUploads(ctx, noLockTimeout, requests)
	return err
}

// ChooseWords returns what the index looks for, and in which part of the list, if so many of the examined items have each of the words.
func ChooseWords(text media.Words, counts []int64, examined, items int64, most, reads, lastScan int) (terms []string, part float64) {
	choice := wordSample{counts: counts, examined: examined, items: items}.choose(indexWords(text), most, reads, lastScan)
	for _, word := range choice.words {
		terms = append(terms, word.term)
	}
	return terms, choice.part
}

// SpanStatement is the one that reads the first and the last item of an app.
func SpanStatement(scope media.Scope) Statement {
	return Statement{spanSQL, []any{scope.AppID, uuid.Nil}, ""}
}
