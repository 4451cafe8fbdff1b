package mediastack

import (
	"context"
	"iter"

	"mediastack.dev/clients/go/api"
)

// GroupCount is a group, and how many sealed items it has.
type GroupCount = api.GroupCount

// MetadataKeys are the keys that the metadata of items has, those of most items first.
type MetadataKeys = api.MetadataKeys

// GroupPage is one page of groups.
type GroupPage struct {
	Groups []GroupCount
	// Next is the argument after of the next page; empty on the last one.
	Next string
}

// groupIterationLimit is the page size of an iterator over groups.
const groupIterationLimit = 1000

// ListGroups reads one page of the groups of the sealed items, in the order of their names. With an access, only its items are counted. limit is at
// most 1000, and 0 is 100.
func (c *Client) ListGroups(ctx context.Context, access Access, after string, limit int) (*GroupPage, error) {
	response, err := c.API.ListGroups(ctx, &api.ListGroupsParams{Access: optional(access), After: optional(after), Limit: optional(limit)})
	groups, err := decode[[]GroupCount](response, err)
	if err != nil {
		return nil, err
	}
	return &GroupPage{Groups: *groups, Next: response.Header.Get("X-Next-Cursor")}, nil
}

// Groups returns an iterator over all of them, which ends after the first error.
func (c *Client) Groups(ctx context.Context, access Access) iter.Seq2[GroupCount, error] {
	return func(yield func(GroupCount, error) bool) {
		for after := ""; ; {
			page, err := c.ListGroups(ctx, access, after, groupIterationLimit)
			if err != nil {
				yield(GroupCount{}, err)
				return
			}
			for _, group := range page.Groups {
				if !yield(group, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// MetadataKeys reads the keys that the metadata of the newest sealed items has.
func (c *Client) MetadataKeys(ctx context.Context) (*MetadataKeys, error) {
	return decode[MetadataKeys](c.API.ListMetadataKeys(ctx))
}
