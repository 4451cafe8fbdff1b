package postgres

import (
	"fmt"
	"strings"

	"mediastack.dev/runtime/media"
)

// traitsMatch returns the condition of the traits of a search, after the others.
func (s search) traitsMatch(args *arguments) string {
	traits := s.query.Traits
	if !traits.Any() {
		return ""
	}
	condition := ""
	has := func(column string, wanted *bool) {
		value := args.add(wanted)
		condition += " AND (" + value + "::boolean IS NULL OR (" + column + " <> '') = " + value + "::boolean)"
	}
	has("caption", traits.HasCaption)
	has("group_label", traits.HasGroup)
	within := func(expression string, bounds media.Bounds) {
		least, greatest := args.add(bounds.Min), args.add(bounds.Max)
		condition += " AND (" + least + "::bigint IS NULL OR " + expression + " >= " + least + "::bigint) AND (" + greatest + "::bigint IS NULL OR " + expression + " <= " + greatest + "::bigint)"
	}
	within("item_file_size(objects)", traits.Bytes)
	within("coalesce(width, -1)", known64(traits.Width))
	within("coalesce(height, -1)", known64(traits.Height))
	orientation := args.add(string(traits.Orientation))
	condition += " AND (" + orientation + "::text = '' OR coalesce(CASE WHEN width > height THEN 'landscape' WHEN width < height THEN 'portrait' WHEN width = height THEN 'square' END, '') = " + orientation + "::text)"
	if traits.Near != nil {
		var squares []string
		for i, part := range []uint8{traits.Near.Red, traits.Near.Green, traits.Near.Blue} {
			squares = append(squares, fmt.Sprintf("power(get_byte(decode(substr(dominant_color, 2), 'hex'), %d) - %s::int, 2)", i, args.add(int(part))))
		}
		condition += " AND coalesce(" + strings.Join(squares, " + ") + " <= " + args.add(media.MaxColorDistance*media.MaxColorDistance) + "::int, false)"
	}
	return condition
}

// known64 returns bounds that a number below zero, which stands for one that is not known, does not match.
func known64(bounds media.Bounds) media.Bounds {
	if bounds.Max != nil && bounds.Min == nil {
		bounds.Min = new(int64)
	}
	return bounds
}
