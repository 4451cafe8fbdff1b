package postgres

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
)

// searchBounds bound a search, in items that one statement examines (docs/decisions/0026).
type searchBounds struct {
	// A page is first searched for in the order of the list, among firstScan items: what many items match
	// is found there.
	firstScan int
	// Then all items with the terms of the search are sorted, if they are at most gathered.
	gathered int
	// Else lastScan items are examined in the order of the list.
	lastScan int
	// counted bounds a count.
	counted int
	// timeout bounds a statement that combines terms: those of very many items take long.
	timeout time.Duration
}

// SearchConfig bounds searches. The tags are flag and environment names.
type SearchConfig struct {
	Items   int32         `name:"search-items" env:"SERVICE_SEARCH_ITEMS" default:"5000" help:"Items that one step of a search examines, from 1000 to 100000: a page that needs more is shorter and has a cursor, and a count is a lower bound beyond twice as many."`
	Timeout time.Duration `name:"search-timeout" env:"SERVICE_SEARCH_TIMEOUT" default:"500ms" help:"How long PostgreSQL may combine the terms of a search, from 10ms to 10s, before items are examined in the order of the list."`
}

// Bounds and defaults of the configuration. The defaults are those of programs that do not read it.
const (
	minSearchItems       = 1000
	maxSearchItems       = 100_000
	minSearchTimeout     = 10 * time.Millisecond
	maxSearchTimeout     = 10 * time.Second
	defaultSearchItems   = 5000
	defaultSearchTimeout = 500 * time.Millisecond
)

// Validate checks the bounds.
func (c SearchConfig) Validate() error {
	switch {
	case c.Items < minSearchItems || c.Items > maxSearchItems:
		return fmt.Errorf("SERVICE_SEARCH_ITEMS must be from %d to %d, not %d", minSearchItems, maxSearchItems, c.Items)
	case c.Timeout < minSearchTimeout || c.Timeout > maxSearchTimeout:
		return fmt.Errorf("SERVICE_SEARCH_TIMEOUT must be from %s to %s, not %s", minSearchTimeout, maxSearchTimeout, c.Timeout)
	}
	return nil
}

func (c SearchConfig) bounds() searchBounds {
	items := int(cmp.Or(c.Items, defaultSearchItems))
	return searchBounds{firstScan: 500, gathered: items, lastScan: items, counted: 2 * items, timeout: cmp.Or(c.Timeout, defaultSearchTimeout)}
}

// The terms of a name: how many characters they have, and how many of them a search has.
const (
	shortTerm = 3
	longTerm  = 5
	maxTerms  = 16
)

// search is the parts of the statements of one search. Arguments $1 to $8 are those of matchSQL, $9 the
// number of items to examine, and $10 the number to return; what follows depends on the statement.
type search struct {
	scope media.Scope
	query media.Query
	after *media.Position
	// first and end bound the ids of the items: by the search, and by the position in a list by time.
	first, end uuid.UUID
}

func newSearch(scope media.Scope, query media.Query, after *media.Position) search {
	s := search{scope: scope, query: query, after: after}
	s.first, s.end = query.IDs()
	if after != nil && s.byTime() {
		if query.Order.Ascending {
			s.first = laterID(s.first, next(after.ID))
		} else if laterID(s.end, after.ID) == s.end {
			s.end = after.ID
		}
	}
	return s
}

func (s search) byTime() bool { return s.query.Order.By == media.ByTime || s.query.Order.By == "" }

func laterID(a, b uuid.UUID) uuid.UUID {
	if string(a[:]) > string(b[:]) {
		return a
	}
	return b
}

// next returns the id after another one.
func next(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			return id
		}
	}
	return media.MaxItemID
}

// matchSQL is whether an item matches. No index has it: it is evaluated for items that were read.
const matchSQL = `coalesce(app_id = $1 AND ($2::text = '' OR access = $2::text) AND ($3::text = '' OR group_label = $3::text)
        AND ($4::text = '' OR item_file_type(objects) = $4::text OR split_part(item_file_type(objects), '/', 1) || '/*' = $4::text)
        AND ($5::text = '' OR position($5::text IN lower(file_name COLLATE "C")) > 0)
        AND metadata @> $6::jsonb AND id >= $7::uuid AND id < $8::uuid, false)`

func (s search) args(examined, wanted int) []any {
	q := s.query
	metadata, _ := q.Metadata.MarshalJSON() // of strings, which can be encoded
	return []any{s.scope.AppID, string(q.Access), q.Group, q.Type, media.LowerName(q.Name), string(metadata), s.first, s.end, examined, wanted}
}

// foundColumns are what the rows of a search need: those of a list, and those of matchSQL.
const foundColumns = itemColumns + ", app_id, bytes"

// orderKey returns the expression that a list by name or by size is ordered by.
func (s search) orderKey() (expression, kind string, value any) {
	var at media.Position
	if s.after != nil {
		at = *s.after
	}
	switch s.query.Order.By { //nolint:exhaustive // a list by time has no key
	case media.ByName:
		return `lower(file_name COLLATE "C")`, "text", at.Name
	case media.ByCapture:
		return captureKey, "bigint", at.Captured
	}
	return "item_file_size(objects)", "bigint", at.Size
}

// direction returns the words of the order of the list: how to sort, and how a later row compares.
func (s search) direction() (sorting, comparison string) {
	if s.query.Order.Ascending {
		return "", ">"
	}
	return " DESC", "<"
}

// rows returns the conditions and the order of the rows of the list, as only one index has them, and the
// arguments from $11 on. See list_statement.go for why the order has the key of the index.
func (s search) rows() (where, order string, args []any) {
	sorting, comparison := s.direction()
	if !s.byTime() {
		key, kind, value := s.orderKey()
		where = "app_id = $1 AND sealed_at IS NOT NULL"
		if s.after != nil {
			where += fmt.Sprintf(" AND (%s, id) %s ($11::%s, $12::uuid)", key, comparison, kind)
			args = []any{value, s.after.ID}
		}
		where, args = s.captureRange(where, args)
		return where, key + sorting + ", id" + sorting, args
	}
	var key, value string
	where = "app_id = $1 AND sealed_at IS NOT NULL"
	switch q := s.query; {
	case q.Drafts:
		key, value, where = "app_id", "$1", "account_id = $11 AND sealed_at IS NULL"
		args = []any{s.scope.AccountID}
	case q.Group != "" && q.Access != "":
		key, value, where = "(access || '/' || group_label)", "($2::text || '/' || $3::text)", where+" AND group_label <> ''"
	case q.Group != "":
		key, value, where = "group_label", "$3::text", where+" AND group_label <> ''"
	case q.Access != "":
		key, value = "access", "$2::text"
	default:
		return where + " AND id >= $7::uuid AND id < $8::uuid", "id" + sorting, nil
	}
	where += fmt.Sprintf(" AND %s >= %s AND %[1]s <= %[2]s AND (%[1]s, id) >= (%[2]s, $7::uuid) AND (%[1]s, id) < (%[2]s, $8::uuid)", key, value)
	return where, key + sorting + ", id" + sorting, args
}

// inOrder returns the statement that examines items in the order of the list. Its rows are the items that
// match, and the last one that was examined if the list goes on after it, which may not match.
func (s search) inOrder(examined, wanted int) (sql string, args []any) {
	where, order, more := s.rows()
	match, args := s.match(append(s.args(examined, wanted), more...))
	return strings.Join([]string{
		"-- name: FindItemsInOrder :many",
		"SELECT n = $9, matches, " + itemColumns + " FROM (",
		"    SELECT *, row_number() OVER () AS n FROM (",
		"        SELECT " + foundColumns + " FROM item WHERE " + where + " ORDER BY " + order + " LIMIT (SELECT $9::bigint)",
		"    ) AS listed",
		") AS examined, LATERAL (SELECT " + match + " AS matches) AS m WHERE matches OR n = $9 LIMIT $10",
	}, "\n"), args
}

// gathered returns the statement that sorts items that were read in another order, and how many they are.
func (s search) gathered(name, from string, args []any) (sql string, all []any) {
	sorting, comparison := s.direction()
	order, where := "id"+sorting, ""
	if !s.byTime() {
		key, kind, value := s.orderKey()
		order = key + sorting + ", id" + sorting
		if s.after != nil {
			where = fmt.Sprintf(" AND (%s, id) %s ($%d::%s, $%d::uuid)", key, comparison, len(args)+1, kind, len(args)+2)
			args = append(args, value, s.after.ID)
		}
	}
	match, args := s.match(args)
	return strings.Join([]string{
		"-- name: " + name + " :many",
		"WITH found AS MATERIALIZED (" + from + ")",
		"SELECT all_found.n, page.* FROM (SELECT count(*) AS n FROM found) AS all_found LEFT JOIN LATERAL (",
		"    SELECT " + itemColumns + " FROM found WHERE " + match + where + " ORDER BY " + order + " LIMIT $10",
		") AS page ON true",
	}, "\n"), args
}

// byTermsSQL reads items by their terms. The condition on sealed_at is that of the index of the terms
// only.
const byTermsSQL = `SELECT ` + foundColumns + ` FROM item WHERE (sealed_at IS NULL) IS FALSE
    AND item_terms(app_id, access, group_label, file_name, item_file_type(objects), metadata)
        @> (SELECT array_agg(item_term($1, term)) FROM unnest($11::text[]) AS t (term)) LIMIT $9::bigint + 1`

// byTerms returns the statement that sorts the items that have the terms of the search.
func (s search) byTerms(examined, wanted int) (sql string, args []any) {
	return s.gathered("FindItemsByTerms", byTermsSQL, append(s.args(examined, wanted), termsOf(s.query.Search)))
}

// inTime returns the statement that sorts the items of a range of time.
func (s search) inTime(examined, wanted int) (sql string, args []any) {
	return s.gathered("FindItemsInTime", "SELECT "+foundColumns+" FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL AND id >= $7::uuid AND id < $8::uuid ORDER BY id DESC LIMIT (SELECT $9::bigint + 1)",
		s.args(examined, wanted))
}

func countSQL(match string) string {
	return "SELECT count(*), count(*) FILTER (WHERE " + match + "), coalesce(sum(bytes) FILTER (WHERE " + match + "), 0)::bigint FROM "
}

// countInOrder returns the statement that counts among the newest items of the list.
func (s search) countInOrder(examined int) (sql string, args []any) {
	where, order, more := s.rows()
	match, args := s.match(append(s.args(examined, 0), more...))
	return strings.Join([]string{
		"-- name: CountMatchesInOrder :one",
		countSQL(match) + "(SELECT " + foundColumns + ", $10::int FROM item WHERE " + where + " ORDER BY " + order + " LIMIT (SELECT $9::bigint + 1)) AS examined",
	}, "\n"), args
}

// countByTerms returns the statement that counts among the items that have the terms of the search.
func (s search) countByTerms(examined int) (sql string, args []any) {
	return s.countGathered("CountMatchesByTerms", byTermsSQL, append(s.args(examined, 0), termsOf(s.query.Search)))
}

// termsOf returns terms that all items which match a search have; see the function item_terms of the
// database. Names of less than three characters have none.
func termsOf(s media.Search) []string {
	var terms []string
	if s.Access != "" {
		terms = append(terms, "a"+string(s.Access))
	}
	if s.Group != "" {
		terms = append(terms, "g"+s.Group)
	}
	if s.Type != "" {
		terms = append(terms, "t"+s.Type)
	}
	for key, value := range s.Metadata {
		terms = append(terms, "m"+key+"="+value)
	}
	name := []rune(media.LowerName(s.Name))
	length := longTerm
	if len(name) < longTerm {
		length = shortTerm
	}
	last := len(name) - length
	if last < 0 {
		return terms
	}
	steps := min(last, maxTerms-1)
	for i := range steps + 1 {
		at := i * last / max(1, steps)
		terms = append(terms, "n"+string(name[at:at+length]))
	}
	return terms
}
