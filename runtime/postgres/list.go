package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
)

// ListItems implements media.Store. One statement reads the page and the total, so that both are of
// one snapshot. limit and offset are bounded by media.Service.List.
func (s Items) ListItems(ctx context.Context, scope media.Scope, filter media.Filter, limit, offset int) (media.List, error) {
	return repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (media.List, error) {
		sql, args := listStatement(scope, filter, limit, offset)
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return media.List{}, toFault(err, "list items")
		}
		list, err := scanList(rows, scope, filter, limit)
		return list, toFault(err, "list items")
	})
}

// listStatement returns the statement of a page and its arguments.
func listStatement(scope media.Scope, filter media.Filter, limit, offset int) (sql string, args []any) {
	kind := 0
	args = []any{scope.AppID, limit, offset}
	if filter.Group != "" {
		kind += withGroup
		args = append(args, filter.Group)
	}
	if filter.Access != "" {
		kind += withAccess
		args = append(args, string(filter.Access))
	}
	if offset > nearOffset {
		return deepLists[kind], args
	}
	return nearLists[kind], args
}

// scanList reads the rows of a list. An empty page is one row that has the total only.
func scanList(rows pgx.Rows, scope media.Scope, filter media.Filter, limit int) (media.List, error) {
	defer rows.Close()
	var public, private int64
	items := make([]media.Item, 0, limit)
	for rows.Next() {
		items = append(items, media.Item{AccountID: scope.AccountID, AppID: scope.AppID})
		item := &items[len(items)-1]
		if err := scanItem(rows, item, &public, &private); err != nil {
			return media.List{}, err
		}
	}
	if len(items) == 1 && items[0].SealedAt == nil {
		items = items[:0]
	}
	// A page is read from the newer or the older end of its list.
	slices.SortFunc(items, func(a, b media.Item) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return media.List{Items: items, Total: matching(filter.Access, public, private)}, rows.Err()
}
