package postgres

import (
	"fmt"
	"strings"
)

// The statements of lists are composed here and not in queries/: they are one text for four kinds of
// lists, and their rows are scanned into items without a copy.
//
// A list is read in the order of its own index, whatever the statistics say: no other index has the
// order that the statement asks for. The planner does not see the limit, which is in a column: it
// assumes a tenth of the rows, so that reading all rows and sorting them never seems cheaper.

// Bits of the kinds of lists.
const (
	withGroup  = 1
	withAccess = 2
	kinds      = 4
)

// nearOffset is the distance from an end of a list up to which a scan from there is as fast as the
// pagination index.
const nearOffset = 500

var nearLists, deepLists = listStatements()

func listStatements() (near, deep [kinds]string) {
	for kind := range kinds {
		l := listOf(kind)
		near[kind], deep[kind] = l.near(), l.deep()
	}
	return near, deep
}

// listText is the parts of the statements of one kind of lists. $1 is the app, $2 the limit, and $3 the
// offset; the group and the access follow.
type listText struct {
	total string // the table and the rows of the total
	items string // the number of items, of those by access
	key   string // the column of the index between the app and the id; "" = none
	value string // of the key
	where string // what else the index needs

	label      string // of the blocks
	blockItems string // of a block
	deltas     string // which deltas are in the list
}

func listOf(kind int) listText {
	l := listText{total: "app_total WHERE app_id = $1", items: "public_items + private_items", label: "''", blockItems: "items"}
	access := "$4::text"
	if kind&withGroup != 0 {
		l.total, l.label = "group_total WHERE app_id = $1 AND group_label = $4::text", "$4::text"
		l.key, l.value, l.where = "group_label", "$4::text", " AND group_label <> ''"
		l.deltas = " AND group_label = $4::text"
		access = "$5::text"
	}
	if kind&withAccess != 0 {
		l.items = fmt.Sprintf("CASE %s WHEN 'public' THEN public_items ELSE private_items END", access)
		l.blockItems = fmt.Sprintf("CASE %s WHEN 'public' THEN public_items ELSE items - public_items END", access)
		l.deltas += fmt.Sprintf(" AND public = (%s = 'public')", access)
		if l.key == "" {
			l.key, l.value = "access", access
		} else {
			l.key, l.value = "(access || '/' || group_label)", fmt.Sprintf("(%s || '/' || $4::text)", access)
		}
	}
	return l
}

// page returns a scan over the items of a page in the order of the index, from the newest one or from the oldest one. It ends at the
// end of the list. A subquery skips items by the index alone, so the rows of those before the page are not read: each would be a block
// of the table, and most often one that is not in the memory. It reads the table, which the indexes are of, and not the view, whose
// condition no index has: a tombstone has no sealed_at.
func (l listText) page(where, within string, newest bool) string {
	first := l.inOrder("id", "stored_item", where+within, newest) + " LIMIT 1 OFFSET place.skip"
	return l.inOrder(itemColumns, "item", where+l.begins(first, newest), newest) + " LIMIT place.size"
}

// inOrder returns a scan over columns of a relation in the order of the index, without a limit.
func (l listText) inOrder(columns, relation, where string, newest bool) string {
	order, direction := "id", ""
	if newest {
		direction = " DESC"
	}
	if l.key != "" {
		order = l.key + direction + ", id"
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE app_id = $1 AND sealed_at IS NOT NULL%s%s ORDER BY %s%s", columns, relation, l.where, where, order, direction)
}

// begins are the conditions for the rows of the list from the one with the id that a subquery returns.
func (l listText) begins(first string, newest bool) string {
	compared := ">="
	if newest {
		compared = "<="
	}
	if l.key == "" {
		return fmt.Sprintf(" AND id %s (%s)", compared, first)
	}
	return l.within() + fmt.Sprintf(" AND (%s, id) %s (%s, (%s))", l.key, compared, l.value, first)
}

// within are the conditions for the rows of the list.
func (l listText) within() string {
	if l.key == "" {
		return ""
	}
	return fmt.Sprintf(" AND %s >= %s AND %[1]s <= %[2]s", l.key, l.value)
}

// before are the conditions for the rows of the list whose ids are before an id.
func (l listText) before(id string) string {
	if l.key == "" {
		return " AND id < " + id
	}
	return fmt.Sprintf(" AND %s >= %s AND (%[1]s, id) < (%[2]s, %s)", l.key, l.value, id)
}

func (l listText) totals() string {
	return "SELECT coalesce(sum(public_items), 0)::bigint AS public_items, coalesce(sum(private_items), 0)::bigint AS private_items FROM " + l.total
}

// near returns the statement of a page near the newest item.
func (l listText) near() string {
	return strings.Join([]string{
		"-- name: ListItems :many",
		"WITH total AS MATERIALIZED (SELECT *, $2::bigint AS size, $3::bigint AS skip FROM (" + l.totals() + ") AS t)",
		"SELECT total.public_items, total.private_items, page.* FROM total LEFT JOIN LATERAL (",
		l.inOrder(itemColumns, "item", l.within(), true) + " LIMIT total.size OFFSET total.skip",
		") AS page ON true",
	}, "\n")
}

// deep returns the statement of any page. One near the oldest item is read from there. For another one,
// the blocks and their deltas tell how many items are newer than each block, and so in which block
// the page begins: before is the first id of the newer block. A list without blocks is scanned. A
// subquery is not executed unless its page is read.
func (l listText) deep() string {
	return strings.Join([]string{
		"-- name: ListItemsByIndex :many",
		"WITH list AS MATERIALIZED (SELECT public_items, private_items, " + l.items + " - $3::bigint AS rest FROM (" + l.totals() + ") AS t),",
		"entry AS (",
		"    SELECT first_id AS id, " + l.blockItems + " AS items, true AS block FROM item_page_block WHERE app_id = $1 AND group_label = " + l.label,
		"    UNION ALL SELECT id, delta::int, false FROM item_page_delta WHERE app_id = $1" + l.deltas,
		"), boundary AS (SELECT id, block, sum(items) OVER (ORDER BY id DESC) AS newer FROM entry),",
		"place AS MATERIALIZED (",
		fmt.Sprintf("    SELECT public_items, private_items, rest - $2::bigint <= %d AS oldest, greatest(0, least(rest, $2::bigint)) AS size,", nearOffset),
		fmt.Sprintf("        CASE WHEN rest - $2::bigint <= %d THEN greatest(0, rest - $2::bigint) ELSE $3::bigint - coalesce(block.newer, 0) END AS skip,", nearOffset),
		"        coalesce(block.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) AS before",
		fmt.Sprintf("    FROM list LEFT JOIN LATERAL (SELECT id, newer FROM boundary WHERE list.rest - $2::bigint > %d AND block AND newer <= $3::bigint ORDER BY id LIMIT 1) AS block ON true", nearOffset),
		")",
		"SELECT place.public_items, place.private_items, page.* FROM place LEFT JOIN LATERAL (",
		"    (" + l.page(" AND place.oldest", l.within(), false) + ")",
		"    UNION ALL",
		"    (" + l.page(" AND NOT place.oldest", l.before("place.before"), true) + ")",
		") AS page ON true",
	}, "\n")
}
