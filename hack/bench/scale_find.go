package main

import (
	"fmt"
	"net/url"
)

// findQuestions are searches and orders. Photos are named by their number, so that the name of one
// matches one item of any account, and a part of it matches many.
var findQuestions = []question{
	{"sort by name", func(int) string { return "/media/get?limit=20&sort=name" }, maximum(1.5), 20},
	{"sort by size, largest first", func(int) string { return "/media/get?limit=20&sort=-size" }, maximum(1.5), 20},
	{"oldest first", func(int) string { return "/media/get?limit=20&sort=time" }, maximum(1.5), 20},
	{"type, of all items", func(int) string { return "/media/get?limit=20&type=" + url.QueryEscape("image/*") }, maximum(1.5), 20},
	{"type, of no item", func(int) string { return "/media/get?limit=20&type=video%2Fmp4" }, maximum(1.5), 0},
	{"name, of one item", func(items int) string { return fmt.Sprintf("/media/get?limit=20&name=IMG_%07d", items/2) }, maximum(1.5), 1},
	{"name, of all items", func(int) string { return "/media/get?limit=20&name=img" }, maximum(1.5), 20},
	{"name, sorted by size", func(items int) string { return fmt.Sprintf("/media/get?limit=20&sort=size&name=IMG_%07d", items/2) }, maximum(1.5), 1},
	{"metadata, of no item", func(int) string { return "/media/get?limit=20&meta.color=red" }, maximum(1.5), 0},
	{"public items by name", func(int) string { return "/media/get?limit=20&access=public&sort=name" }, maximum(1.5), 20},
	{"drafts", func(int) string { return "/media/get?limit=20&state=draft" }, maximum(1.5), 0},
	{"count by name, one item", func(items int) string { return fmt.Sprintf("/media/get/count?name=IMG_%07d", items/2) }, maximum(1.5), 0},
	{"totals by metadata, no item", func(int) string { return "/media/get/size?meta.color=red" }, maximum(1.5), 0},
}
