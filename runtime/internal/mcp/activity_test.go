package mcp_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
)

// activity is a result of list_activity.
type activity struct {
	Events []struct {
		Time    time.Time
		Type    string
		MediaID string `json:"mediaId"`
		Actor   struct{ Kind, Name, Email, ID string }
		Fields  []string
	}
	Next string
}

// told returns the events in a short form.
func (a activity) told() (lines []string) {
	for _, event := range a.Events {
		lines = append(lines, strings.TrimSpace(event.Type+" "+event.Actor.Kind+" "+strings.Join(event.Fields, ",")))
	}
	return lines
}

func withActivity(s *account.Spec) {
	s.Journal, s.ToolPolicy.Toolsets = time.Hour, []string{account.ToolsetCore, account.ToolsetOrganize, account.ToolsetActivity}
}

// An assistant learns who did what, on every replica.
func TestActivity_TellsWhoDidWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt, second := w.replica(t), w.replica(t)
	one, plain := w.tenant(t, "one", withActivity), w.tenant(t, "plain", func(s *account.Spec) { s.Journal = time.Hour })
	silent := w.tenant(t, "silent", func(s *account.Spec) { s.ToolPolicy.Toolsets = []string{account.ToolsetActivity} })
	blog := w.AddApp(t, one, "blog")
	login := w.Session(t, one, auth.ScopeRead, auth.ScopeWrite, auth.ScopeDelete)

	first := rt.upload(t, one.Key, "first.txt", []byte("a"))
	succeeded[any](t, rt.callAs(t, "seal_media", object{"mediaId": first}, bearer(login)))
	succeeded[any](t, rt.callAs(t, "update_media", object{"mediaId": first, "caption": "secret words", "group": "g"}, bearer(login)))
	other := rt.upload(t, one.Key, "other.txt", []byte("b"))
	succeeded[any](t, rt.callAs(t, "delete_media", object{"mediaId": first}, bearer(login)))
	theirs := rt.upload(t, blog.Key, "theirs.txt", []byte("c"))

	list := func(rt *replica, key string, arguments object) activity {
		t.Helper()
		return succeeded[activity](t, rt.call(t, key, "list_activity", arguments))
	}
	for name, c := range map[string]struct {
		key       string
		arguments object
		want      string
	}{
		"an item":                {one.Key, object{"mediaId": first}, "media.deleted login; media.updated login caption,group; media.sealed login; media.uploaded key"},
		"another item":           {one.Key, object{"mediaId": other}, "media.uploaded key"},
		"types":                  {one.Key, object{"types": []string{"media.sealed", "media.deleted"}}, "media.deleted login; media.sealed login"},
		"an item of another app": {one.Key, object{"mediaId": theirs}, ""},
		"no item":                {one.Key, object{"mediaId": uuid.NewString()}, ""},
		"another app":            {blog.Key, object{"types": []string{"media.uploaded", "media.sealed", "account.suspended", "settings.changed"}}, "media.uploaded key"},
	} {
		if got := strings.Join(list(second, c.key, c.arguments).told(), "; "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	all := list(rt, one.Key, nil)
	deleted := all.Events[0]
	if deleted.Type != "media.deleted" || deleted.MediaID != first || deleted.Actor.Name == "" || !strings.Contains(deleted.Actor.Email, "***@") || deleted.Actor.ID != "" || deleted.Time.IsZero() {
		t.Errorf("the newest event is %+v", deleted)
	}
	if !slices.ContainsFunc(all.told(), func(line string) bool { return strings.HasPrefix(line, "key.issued") }) {
		t.Errorf("the Default App does not see the events of the account: %q", all.told())
	}
	if text := string(rt.call(t, one.Key, "list_activity", nil).StructuredContent); strings.Contains(text, "secret words") || strings.Contains(text, "first.txt") {
		t.Errorf("values are told: %s", text)
	}

	// Parts of two replicas are the whole.
	var parts []string
	arguments := object{"limit": 1}
	for part := range len(all.Events) {
		got := list([]*replica{rt, second}[part%2], one.Key, arguments)
		parts = append(parts, got.told()...)
		arguments["cursor"] = got.Next
	}
	if !slices.Equal(parts, all.told()) || arguments["cursor"] != "" || all.Next != "" {
		t.Errorf("in parts: %q, next %q; want %q", parts, arguments["cursor"], all.told())
	}

	for _, bad := range []struct {
		key   string
		input object
		says  string
	}{
		{one.Key, object{"limit": 0}, "limit must be from 1 to 100"},
		{one.Key, object{"limit": 101}, "limit must be from 1 to 100"},
		{one.Key, object{"limit": "20"}, "limit must be an integer"},
		{one.Key, object{"cursor": "now"}, "the cursor must be that of a page before"},
		{one.Key, object{"types": "media.sealed"}, "types must be a list of event types"},
		{one.Key, object{"types": []string{"media.moved"}}, `there is no event type "media.moved"`},
		{one.Key, object{"mediaId": "1"}, "mediaId must be an id"},
		{one.Key, object{"app": "blog"}, "unknown argument"},
		{silent.Key, nil, "the account has no journal: spec.journal of the MediaAccount switches it on"},
		{plain.Key, nil, "list_activity is in the toolset activity"},
	} {
		if says := failed(t, rt.call(t, bad.key, "list_activity", bad.input)); !strings.Contains(says, bad.says) {
			t.Errorf("%v says %q, want %q", bad.input, says, bad.says)
		}
	}
	for _, tool := range rt.tools(t, one.Key) {
		if tool.Name != "list_activity" {
			continue
		}
		if tool.Annotations["readOnlyHint"] != true || tool.Annotations["destructiveHint"] != false {
			t.Errorf("its hints are %v", tool.Annotations)
		}
		described(t, tool.Name, tool.InputSchema)
		described(t, tool.Name, tool.OutputSchema)
		output, err := tool.OutputSchema.Resolve(nil)
		must(t, err)
		must(t, output.Validate(succeeded[any](t, rt.call(t, one.Key, tool.Name, nil))))
	}
}
