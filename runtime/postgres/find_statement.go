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
	// groupRows bounds the rows of totals that a request for groups examines: a group has at most 16.
	groupRows int
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
	groupRows            = 5000
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
	return searchBounds{firstScan: 500, gathered: items, lastScan: items, counted: 2 * items, groupRows: groupRows, timeout: cmp.Or(c.Timeout, defaultSearchTimeout)}
}

// The terms of a name: how many characters they have, and how many of them a search has.
const (
	shortTerm = 3
	longTerm  = 5
	maxTerms  = 16
)

// search is the parts of the statements of one search. Arguments $1 to $8 are those of matchSQL, $9 the
// number of items to examine, and $10 the number to return; what follows depends on the search and the statement.
type search struct {
	scope media.Scope
	query media.Query
	after *media.Position
	// first and end bound the ids of the items: by the search, and by the position in a list by time.
	first, end uuid.UUID
	// part says that they are those of a part of the list, for a statement by words.
	part bool
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

// arguments are those of a statement.
type arguments []any

// add adds an argument, and returns its name in the statement.
func (a *arguments) add(value any) string {
	*a = append(*a, value)
	return fmt.Sprintf("$%d", len(*a))
}

func (s search) args(examined, wanted int) arguments {
	q := s.query
	metadata, _ := q.Metadata.MarshalJSON() // of strings, which can be encoded
	return arguments{s.scope.AppID, string(q.Access), q.Group, q.Type, media.LowerName(q.Name), string(metadata), s.first, s.end, examined, wanted}
}

// matches returns whether an item matches, as matchSQL.
func (s search) matches(args *arguments) string {
	return matchSQL + s.traitsMatch(args) + s.captureMatch(args) + s.wordsMatch(args)
}

// foundColumns are what the rows of a search need: those of a list, and those of matches.
const foundColumns = itemColumns + ", app_id, bytes, search_text"

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

// rows returns the conditions and the order of the rows of the list, as only one index has them. See list_statement.go for why the
// order has the key of the index.
func (s search) rows(args *arguments) (where, order string) {
	sorting, comparison := s.direction()
	if !s.byTime() {
		key, kind, value := s.orderKey()
		where = "app_id = $1 AND sealed_at IS NOT NULL"
		if s.after != nil {
			where += fmt.Sprintf(" AND (%s, id) %s (%s::%s, %s::uuid)", key, comparison, args.add(value), kind, args.add(s.after.ID))
		}
		return where + s.captureRange(args), key + sorting + ", id" + sorting
	}
	var key, value string
	where = "app_id = $1 AND sealed_at IS NOT NULL"
	switch q := s.query; {
	case q.Drafts:
		key, value, where = "app_id", "$1", "account_id = "+args.add(s.scope.AccountID)+" AND sealed_at IS NULL"
	case q.Group != "" && q.Access != "":
		key, value, where = "(access || '/' || group_label)", "($2::text || '/' || $3::text)", where+" AND group_label <> ''"
	case q.Group != "":
		key, value, where = "group_label", "$3::text", where+" AND group_label <> ''"
	case q.Access != "":
		key, value = "access", "$2::text"
	default:
		return where + " AND id >= $7::uuid AND id < $8::uuid", "id" + sorting
	}
	where += fmt.Sprintf(" AND %s >= %s AND %[1]s <= %[2]s AND (%[1]s, id) >= (%[2]s, $7::uuid) AND (%[1]s, id) < (%[2]s, $8::uuid)", key, value)
	return where, key + sorting + ", id" + sorting
}

// inOrder returns the statement that examines items in the order of the list. Its rows are the items that
// match, and the last one that was examined if the list goes on after it, which may not match.
func (s search) inOrder(examined, wanted int) (sql string, args []any) {
	all := s.args(examined, wanted)
	where, order := s.rows(&all)
	return strings.Join([]string{
		"-- name: FindItemsInOrder :many",
		"SELECT n = $9, matches, one.* FROM (",
		"    SELECT id, matches, n FROM (SELECT id, matches, row_number() OVER () AS n FROM (",
		"        SELECT id, " + s.matches(&all) + " AS matches FROM (",
		"            SELECT " + foundColumns + " FROM item WHERE " + where + " ORDER BY " + order + " LIMIT (SELECT $9::bigint)",
		"        ) AS listed OFFSET 0",
		"    ) AS compared) AS examined WHERE matches OR n = $9 LIMIT $10",
		") AS chosen, LATERAL (SELECT " + itemColumns + " FROM item WHERE account_id = " + all.add(s.scope.AccountID) + " AND id = chosen.id LIMIT 1) AS one ORDER BY n",
	}, "\n"), all
}

// gathered returns the statement that sorts items that were read in another order, and how many they are.
func (s search) gathered(name, from string, args arguments) (sql string, all []any) {
	sorting, comparison := s.direction()
	key, where := "0", "" // the position of an item in a list by time is its id
	if !s.byTime() {
		var kind string
		var value any
		key, kind, value = s.orderKey()
		if s.after != nil {
			where = fmt.Sprintf(" AND (place, id) %s (%s::%s, %s::uuid)", comparison, args.add(value), kind, args.add(s.after.ID))
		}
	}
	account := args.add(s.scope.AccountID)
	return strings.Join([]string{
		"-- name: " + name + " :many",
		"WITH found AS MATERIALIZED (SELECT id, " + key + " AS place, " + s.matches(&args) + " AS matches FROM (" + from + ") AS gathered)",
		"SELECT all_found.n, page.* FROM (SELECT count(*) AS n FROM found) AS all_found LEFT JOIN LATERAL (",
		"    SELECT one.* FROM (SELECT id, place FROM found WHERE matches" + where + " ORDER BY place" + sorting + ", id" + sorting + " LIMIT $10) AS chosen,",
		"        LATERAL (SELECT " + itemColumns + " FROM item WHERE account_id = " + account + " AND id = chosen.id LIMIT 1) AS one ORDER BY place" + sorting + ", chosen.id" + sorting,
		") AS page ON true",
	}, "\n"), args
}

// byTermsSQL reads columns of items by their terms. The condition on sealed_at is that of the indexes of terms and of words
// only.
func (s search) byTermsSQL(columns string, args *arguments) string {
	return `SELECT ` + columns + ` FROM item WHERE (sealed_at IS NULL) IS FALSE
    AND item_terms(app_id, access, group_label, file_name, item_file_type(objects), metadata)
        @> (SELECT array_agg(item_term($1, term)) FROM unnest(` + args.add(termsOf(s.query.Search)) + `::text[]) AS t (term)) LIMIT $9::bigint + 1`
}

// byTerms returns the statement that sorts the items that have the terms of the search.
func (s search) byTerms(examined, wanted int) (sql string, args []any) {
	args = s.args(examined, wanted)
	from := s.byTermsSQL(foundColumns, (*arguments)(&args))
	return s.gathered("FindItemsByTerms", from, args)
}

// inTime returns the statement that sorts the items of a range of time.
func (s search) inTime(examined, wanted int) (sql string, args []any) {
	return s.gathered("FindItemsInTime", "SELECT "+foundColumns+" FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL AND id >= $7::uuid AND id < $8::uuid ORDER BY id DESC LIMIT (SELECT $9::bigint + 1)",
		s.args(examined, wanted))
}

// counted returns the statement that counts items that a subquery reads, and those that match.
func (s search) counted(name, from string, args arguments) (sql string, all []any) {
	return strings.Join([]string{
		"-- name: " + name + " :one",
		"SELECT count(*), count(*) FILTER (WHERE matches), coalesce(sum(bytes) FILTER (WHERE matches), 0)::bigint",
		"FROM (" + from + ") AS examined, LATERAL (SELECT " + s.matches(&args) + " AS matches) AS m",
	}, "\n"), args
}

// countedColumns are those of a statement that counts. It has $10, as the others.
const countedColumns = foundColumns + ", $10::int"

// countInOrder returns the statement that counts among the newest items of the list.
func (s search) countInOrder(examined int) (sql string, args []any) {
	all := s.args(examined, 0)
	where, order := s.rows(&all)
	return s.counted("CountMatchesInOrder", "SELECT "+countedColumns+" FROM item WHERE "+where+" ORDER BY "+order+" LIMIT (SELECT $9::bigint + 1)", all)
}

// countByTerms returns the statement that counts among the items that have the terms of the search.
func (s search) countByTerms(examined int) (sql string, args []any) {
	all := s.args(examined, 0)
	from := s.byTermsSQL(countedColumns, &all)
	return s.counted("CountMatchesByTerms", from, all)
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
