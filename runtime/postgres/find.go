package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/runtime/media"
)

// FindItems implements media.Store. It searches in three ways, each with a bound: in the order of the
// list, which finds what many items match; by terms or by time, which finds what few items match; and
// again in the order of the list, as far as one request may, for what is between.
func (s Items) FindItems(ctx context.Context, scope media.Scope, query media.Query, after *media.Position, wanted int) (media.Found, error) {
	found, err := repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (media.Found, error) {
		return s.findItems(ctx, newSearch(scope, query, after), query.Skip()+wanted)
	})
	return found, toFault(err, "find items")
}

// findItems finds up to wanted items, those of the pages before included.
func (s Items) findItems(ctx context.Context, search search, wanted int) (media.Found, error) {
	common := search.after != nil && search.after.Common
	if !common {
		found, err := s.findInOrder(ctx, search, s.searches.firstScan+wanted, wanted)
		if err != nil || found.Stopped == nil {
			return found, err
		}
		if found, complete, err := s.gather(ctx, search, wanted, found); err != nil || complete {
			return found, err
		}
	}
	found, err := s.findInOrder(ctx, search, s.searches.lastScan+wanted, wanted)
	found.Common = true
	return found, err
}

// findInOrder examines items in the order of the list.
func (s Items) findInOrder(ctx context.Context, search search, examined, wanted int) (media.Found, error) {
	sql, args := search.inOrder(examined, wanted)
	found := media.Found{Items: make([]media.Item, 0, min(wanted, media.MaxLimit+1))}
	read := func(rows pgx.Rows) error {
		found.Items, found.Skipped, found.Stopped = found.Items[:0], 0, nil // of an attempt before
		for rows.Next() {
			var last, matches bool
			item := media.Item{AccountID: search.scope.AccountID, AppID: search.scope.AppID}
			if err := scanItem(rows, &item, &last, &matches); err != nil {
				return err
			}
			if matches {
				search.add(&found, item)
			}
			if last && found.Skipped+len(found.Items) < wanted {
				found.Stopped = new(media.PositionOf(item, search.query.Order))
			}
		}
		return rows.Err()
	}
	if search.query.Drafts {
		return found, s.withSettings(ctx, draftSettings, sql, args, read)
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return media.Found{}, err
	}
	defer rows.Close()
	return found, read(rows)
}

// add adds the next item of the list.
func (s search) add(found *media.Found, item media.Item) {
	if found.Skipped < s.query.Skip() {
		found.Skipped++
		return
	}
	found.Items = append(found.Items, item)
}

// isCommon reports whether the first scan found so much that the last one probably finds a page, and another way would be too much.
func (s Items) isCommon(found media.Found, wanted int) bool {
	return (found.Skipped+len(found.Items))*s.searches.lastScan > wanted*(s.searches.firstScan+wanted)
}

// gather sorts the items that have the words or the terms of the search, or are of its time. It returns false if those are too many. Those with the
// words are not looked for if the first scan found so many that they are common.
func (s Items) gather(ctx context.Context, search search, wanted int, first media.Found) (found media.Found, complete bool, err error) {
	if !s.isCommon(first, wanted) {
		found, complete, err = s.gatherByWords(ctx, search, wanted, first.Skipped+len(first.Items))
	}
	if err == nil && !complete {
		found, complete, err = s.gatherByTerms(ctx, search, wanted)
	}
	if err == nil && !complete {
		found, complete, err = s.gatherByCapture(ctx, search, wanted)
	}
	if err == nil && !complete {
		found, complete, err = s.gatherInTime(ctx, search, wanted)
	}
	return found, complete, err
}

// gatherByWords sorts the items that have the words of the search, of which the first scan found some. It returns false if the search has none, or if
// too many items have them.
func (s Items) gatherByWords(ctx context.Context, search search, wanted, some int) (found media.Found, complete bool, err error) {
	if search.query.Drafts || len(search.query.Words.Texts) == 0 {
		return media.Found{}, false, nil
	}
	most := s.searches.gathered
	if search.byTime() { // the last scan finds what more items have, as their order is that of the list
		most /= 2
	}
	choice, err := s.chooseWords(ctx, search, some, s.searches.firstScan+wanted, most, search.rangeReads(wanted))
	if err != nil || len(choice.words) == 0 {
		return media.Found{}, false, err
	}
	if choice.part < 1 {
		var few bool
		if found, complete, few, err = s.gatherPart(ctx, search, choice, most, wanted); err != nil || !few {
			return found, complete, err
		}
	}
	sql, args := search.byWords(choice.words, most, wanted)
	return s.gatherBy(ctx, search, sql, args, most)
}

// gatherPart sorts the items of a part of a list by time that have words. If those are no page, the list goes on after the part, or
// so few are in it that all items of the app that have the words can be sorted.
func (s Items) gatherPart(ctx context.Context, search search, choice wordChoice, most, wanted int) (found media.Found, complete, few bool, err error) {
	part, err := s.nextPart(ctx, search, choice.part)
	if err != nil {
		return media.Found{}, false, false, err
	}
	sql, args := part.byWords(choice.words, most, wanted)
	found, examined, complete, err := s.gatherCounted(ctx, part, sql, args, most)
	if err != nil || !complete || found.Skipped+len(found.Items) >= wanted {
		return found, complete, false, err
	}
	if found.Stopped = search.restOf(part); found.Stopped == nil {
		return found, true, false, nil
	}
	// The part tells more of how many items have the words than the sample did.
	return found, true, float64(examined)/choice.part <= float64(most)*sortedPart, nil
}

// gatherByTerms sorts the items that have the terms of the search. It returns false if the search has
// none, or if too many items have them.
func (s Items) gatherByTerms(ctx context.Context, search search, wanted int) (found media.Found, complete bool, err error) {
	if search.query.Drafts || len(termsOf(search.query.Search)) == 0 {
		return media.Found{}, false, nil
	}
	sql, args := search.byTerms(s.searches.gathered, wanted)
	return s.gatherBy(ctx, search, sql, args, s.searches.gathered)
}

// gatherBy executes a statement that reads by an index of terms or words. It returns false if that takes too long, too.
func (s Items) gatherBy(ctx context.Context, search search, sql string, args []any, most int) (found media.Found, complete bool, err error) {
	found, _, complete, err = s.gatherCounted(ctx, search, sql, args, most)
	return found, complete, err
}

// gatherCounted also returns how many items were examined.
func (s Items) gatherCounted(ctx context.Context, search search, sql string, args []any, most int) (found media.Found, examined int, complete bool, err error) {
	err = s.withSettings(ctx, s.searches.settings(), sql, args, func(rows pgx.Rows) (err error) {
		found, examined, err = search.scanCounted(rows)
		return err
	})
	if isTimeout(err) {
		return media.Found{}, 0, false, nil
	}
	return found, examined, err == nil && examined <= most, err
}

// gatherInTime sorts the items of a range of time by something else. It returns false if the search has
// no such range, or if too many items are in it.
func (s Items) gatherInTime(ctx context.Context, search search, wanted int) (found media.Found, complete bool, err error) {
	if search.byTime() || search.query.From.IsZero() && search.query.To.IsZero() {
		return media.Found{}, false, nil
	}
	sql, args := search.inTime(s.searches.gathered, wanted)
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return media.Found{}, false, err
	}
	defer rows.Close()
	return search.scan(rows, s.searches.gathered)
}

// scan reads the rows of a statement that sorts, and whether it examined all items: at
// most as many as it may.
func (s search) scan(rows pgx.Rows, most int) (found media.Found, complete bool, err error) {
	found, examined, err := s.scanCounted(rows)
	return found, err == nil && examined <= most, err
}

// scanCounted reads the rows of a statement that sorts, and how many items it examined.
func (s search) scanCounted(rows pgx.Rows) (found media.Found, examined int, err error) {
	for rows.Next() {
		item := media.Item{AccountID: s.scope.AccountID, AppID: s.scope.AppID}
		if err := scanItem(rows, &item, &examined); err != nil {
			return media.Found{}, 0, err
		}
		if item.Access != "" { // a search that found nothing has one row without an item
			s.add(&found, item)
		}
	}
	return found, examined, rows.Err()
}

// settings are those of a statement that reads by terms: only an index that has its condition can be
// used, and no bitmap is too large for the memory.
func (b searchBounds) settings() string {
	return fmt.Sprintf(`-- name: BoundSearch :exec
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true),
    set_config('work_mem', '16MB', true), set_config('statement_timeout', '%d', true)`, b.timeout.Milliseconds())
}

// draftSettings are those of a list of drafts: it is read in the order of its index. Statistics seldom
// know how many drafts there are.
const draftSettings = `-- name: OrderDrafts :exec
SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)`

// withSettings executes a statement with its settings, in one round trip and one transaction.
func (s Items) withSettings(ctx context.Context, settings, sql string, args []any, read func(rows pgx.Rows) error) error {
	batch := &pgx.Batch{}
	batch.Queue(settings)
	batch.Queue(sql, args...).Query(read)
	return s.pool.SendBatch(ctx, batch).Close()
}

// isTimeout reports whether the server ended a statement at its timeout.
func isTimeout(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "57014" // query_canceled
}

// CountMatches implements media.Store. It examines the newest items first, of which a search that many
// items match has a good part. Then it counts by terms, and if those are too many again the newest.
func (s Items) CountMatches(ctx context.Context, scope media.Scope, of media.Search) (media.Matches, error) {
	matches, err := repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (media.Matches, error) {
		return s.countMatches(ctx, newSearch(scope, media.Query{Search: of}, nil))
	})
	return matches, toFault(err, "count matches")
}

// commonPart is the part of the newest items from which on the terms of a search are too common to be
// counted by them.
const commonPart = 10

func (s Items) countMatches(ctx context.Context, search search) (media.Matches, error) {
	newest, err := s.countInOrder(ctx, search, s.searches.firstScan)
	if err != nil || !newest.Partial {
		return newest, err
	}
	if newest.Items*commonPart < int64(s.searches.firstScan) {
		statements, err := s.countsByIndex(ctx, search, newest, s.searches.counted)
		if err != nil {
			return newest, err
		}
		for _, statement := range statements {
			matches, err := s.countBy(ctx, statement)
			if err == nil && !matches.Partial || err != nil && !isTimeout(err) {
				return matches, err
			}
		}
	}
	if matches, counted, err := s.countByCapture(ctx, search); err != nil || counted {
		return matches, err
	}
	return s.countInOrder(ctx, search, s.searches.counted)
}

func (s Items) countInOrder(ctx context.Context, search search, examined int) (media.Matches, error) {
	var matches media.Matches
	var n int
	sql, args := search.countInOrder(examined)
	err := s.pool.QueryRow(ctx, sql, args...).Scan(&n, &matches.Items, &matches.Bytes)
	matches.Partial = n > examined
	return matches, err
}

// countStatement is a statement that counts, with its arguments.
type countStatement struct {
	sql  string
	args []any
}

// countsByIndex returns the statements that count by the words of the search, and by its terms.
func (s Items) countsByIndex(ctx context.Context, search search, newest media.Matches, examined int) (all []countStatement, err error) {
	if len(search.query.Words.Texts) > 0 {
		choice, err := s.chooseWords(ctx, search, int(newest.Items), s.searches.firstScan, examined, 0)
		if err != nil {
			return nil, err
		}
		if len(choice.words) > 0 {
			sql, args := search.countByWords(choice.words, examined)
			all = append(all, countStatement{sql, args})
		}
	}
	if len(termsOf(search.query.Search)) > 0 {
		sql, args := search.countByTerms(examined)
		all = append(all, countStatement{sql, args})
	}
	return all, nil
}

func (s Items) countBy(ctx context.Context, statement countStatement) (media.Matches, error) {
	var matches media.Matches
	var n int
	err := s.withSettings(ctx, s.searches.settings(), statement.sql, statement.args, func(rows pgx.Rows) error {
		for rows.Next() {
			if err := rows.Scan(&n, &matches.Items, &matches.Bytes); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	matches.Partial = n > s.searches.counted
	return matches, err
}
