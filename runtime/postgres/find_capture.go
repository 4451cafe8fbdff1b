package postgres

import (
	"context"
	"strings"

	"mediastack.dev/runtime/media"
)

// captureKey is what a list by capture is ordered by, as only its index has it.
const captureKey = "item_capture_order(capture, id)"

// captureMatch returns what the search says of captures; nothing without that.
func (s search) captureMatch(args *arguments) (sql string) {
	of := s.query.Captured
	if of.HasTime() {
		first, end := of.Milliseconds()
		sql += " AND coalesce((capture ->> 'ms')::bigint >= " + args.add(first) + "::bigint AND (capture ->> 'ms')::bigint < " + args.add(end) + "::bigint, false)"
	}
	if near := of.Near; near != nil {
		sql += " AND coalesce(item_distance(capture, " + args.add(near.Latitude) + "::float8, " + args.add(near.Longitude) + "::float8) <= " + args.add(near.Radius) + "::float8, false)"
	}
	return sql
}

// captureRange returns the bounds of time of a list by capture.
func (s search) captureRange(args *arguments) string {
	if s.query.Order.By != media.ByCapture || !s.query.Captured.HasTime() {
		return ""
	}
	first, end := s.query.Captured.Milliseconds()
	return " AND " + captureKey + " >= " + args.add(first) + "::bigint AND " + captureKey + " < " + args.add(end) + "::bigint"
}

// byLocationSQL reads items by the cells around a location: some that are further away are among them. The condition on sealed_at is that of the
// index of locations only.
const byLocationSQL = `SELECT ` + foundColumns + ` FROM unnest($11::bigint[], $12::bigint[]) AS cells (first_cell, end_cell) CROSS JOIN LATERAL (
        SELECT * FROM item located WHERE located.app_id = $1 AND (located.sealed_at IS NULL) IS FALSE AND item_cell(located.capture) >= cells.first_cell AND item_cell(located.capture) < cells.end_cell
        ORDER BY located.app_id, item_cell(located.capture) LIMIT $9::bigint + 1
    ) AS item LIMIT $9::bigint + 1`

// inCaptureTimeSQL reads items by when they were made. Those of which that is not known are among them, by when their uploads began.
const inCaptureTimeSQL = `SELECT ` + foundColumns + ` FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL AND ` + captureKey + ` >= $11::bigint AND ` + captureKey + ` < $12::bigint
    ORDER BY ` + captureKey + ` DESC, id DESC LIMIT (SELECT $9::bigint + 1)`

// capturePath is a way to read the items of a search by what it says of captures: the statements, and the arguments from $11 on.
type capturePath struct {
	name, sql string
	args      []any
}

// capturePaths returns the ways of a search, the most selective first.
func (s search) capturePaths() (paths []capturePath) {
	of := s.query.Captured
	if near := of.Near; near != nil {
		var first, end []int64
		for _, cells := range near.Cells() {
			first, end = append(first, cells.First), append(end, cells.End)
		}
		paths = append(paths, capturePath{"ByLocation", byLocationSQL, []any{first, end}})
	}
	if of.HasTime() {
		first, end := of.Milliseconds()
		paths = append(paths, capturePath{"InCaptureTime", inCaptureTimeSQL, []any{first, end}})
	}
	return paths
}

// gatherByCapture sorts the items of a location, or of a range of capture times. It returns false if the search has neither, or if too many items
// are there.
func (s Items) gatherByCapture(ctx context.Context, search search, wanted int) (found media.Found, complete bool, err error) {
	if search.query.Drafts {
		return media.Found{}, false, nil
	}
	for _, path := range search.capturePaths() {
		sql, args := search.gathered("FindItems"+path.name, path.sql, append(search.args(s.searches.gathered, wanted), path.args...))
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return media.Found{}, false, err
		}
		found, complete, err = search.scan(rows, s.searches.gathered)
		rows.Close()
		if err != nil || complete {
			return found, complete, err
		}
	}
	return media.Found{}, false, nil
}

// countByCapture counts among the items of a location, or of a range of capture times, if they are not too many.
func (s Items) countByCapture(ctx context.Context, search search) (matches media.Matches, counted bool, err error) {
	for _, path := range search.capturePaths() {
		sql, args := search.countGathered("CountMatches"+path.name, path.sql, append(search.args(s.searches.counted, 0), path.args...))
		var n int
		if err := s.pool.QueryRow(ctx, sql, args...).Scan(&n, &matches.Items, &matches.Bytes); err != nil {
			return media.Matches{}, false, err
		}
		if n <= s.searches.counted {
			return matches, true, nil
		}
	}
	return media.Matches{}, false, nil
}

// countGathered returns the statement that counts among the items that another one reads.
func (s search) countGathered(name, from string, args arguments) (sql string, all []any) {
	return s.counted(name, strings.Replace(from, " FROM ", ", $10::int FROM ", 1), args)
}
