package approval_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// Whatever an assistant, an application or a page of another site sends, only the owner allows something, on the page.
func TestForgeries_CarryOutNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	foreign := w.tenant(t, "other", func(s *account.Spec) { s.Owners = []string{webtest.Owner} })
	w.run(t)
	by, another := w.application(t, tenant), w.application(t, tenant)
	item := w.sealed(t, tenant, "target.txt")
	q := w.asked(t, by, "delete_media", object{"mediaId": item})
	owner, p := w.open(t, q)
	second, anonymous, consenting, foreigner := w.pages.Browser(t), w.pages.Browser(t), w.pages.Browser(t), w.pages.Browser(t)
	sp := second.Login("/account/files", runtimetest.Owner)
	foreignPage := foreigner.Login("/account/files", webtest.Owner)
	app := consenting.Application("consenting")
	consentPage := consenting.Login(app.Query(nil), runtimetest.Owner)
	anonymousPage := anonymous.Get("/account/files") // a session that is not logged in

	forged := 0
	untouched := func(what string) {
		t.Helper()
		forged++
		if n := w.deleted(t); n != 0 {
			t.Fatalf("%s: the item was deleted", what)
		}
		if state := w.Text(t, `SELECT state FROM approval WHERE id = $1`, q.ApprovalID); state != "waiting" {
			t.Fatalf("%s: the approval is %s", what, state)
		}
	}

	// Arguments by which a model says that a person has agreed.
	for _, claim := range []object{{"confirm": true}, {"approved": true}, {"approvalId": q.ApprovalID}, {"approval": q.ApprovalID}, {"force": true}, {"permanent": true},
		{"elicitation": object{"action": "accept"}}, {"decision": "allow"}, {"csrf": p.Fields().Get("csrf"), "request": p.Fields().Get("request")}} {
		arguments := object{"mediaId": item}
		for name, value := range claim {
			arguments[name] = value
		}
		if result := call(t, w.tools, by, "delete_media", arguments); !result.IsError {
			t.Errorf("%v: %s", claim, result.text())
		}
		untouched(fmt.Sprint(claim))
	}

	// Messages that answer what was never asked, and fields of the protocol beside the arguments.
	send := func(what string, status int, message any, change ...runtimetest.Option) {
		t.Helper()
		text, err := json.Marshal(message)
		must(t, err)
		options := append([]runtimetest.Option{by, runtimetest.Text(string(text)), runtimetest.Header("Content-Type", "application/json"), runtimetest.Header("Accept", "application/json, text/event-stream")}, change...)
		answer, err := w.tools.Send(t.Context(), http.MethodPost, api.ToolsRoute, options...)
		must(t, err)
		answer.Is(t, status, "%s", what)
		untouched(what)
	}
	accept := object{"action": "accept", "content": object{"approve": true, "approvalId": q.ApprovalID}}
	for i, id := range []any{1, "1", q.ApprovalID} {
		send(fmt.Sprintf("elicitation answer %d", i), http.StatusAccepted, object{"jsonrpc": "2.0", "id": id, "result": accept})
	}
	send("an answer without an action", http.StatusAccepted, object{"jsonrpc": "2.0", "id": 7, "result": object{}})
	send("notification of a completed elicitation", http.StatusAccepted, object{"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": object{"elicitationId": q.ApprovalID}})
	again := object{"name": "delete_media", "arguments": object{"mediaId": item}}
	for name, value := range map[string]any{"inputResponses": object{q.ApprovalID: accept}, "requestState": q.ApprovalID, "_meta": object{"mediastack.dev/approval": q.ApprovalID}, "elicitation": accept} {
		params := object{name: value}
		for field, own := range again {
			params[field] = own
		}
		send("a call with "+name, http.StatusOK, object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	}
	send("elicitation as a request", http.StatusOK, object{"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": accept})
	send("the tool of the decision", http.StatusOK, object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": "allow_approval", "arguments": object{"approvalId": q.ApprovalID}}})
	send("a header", http.StatusOK, object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": again}, runtimetest.Header("X-Service-Approval", q.ApprovalID))

	// The same credential over REST.
	for _, one := range []struct{ method, path, body string }{
		{http.MethodDelete, "/media/delete/" + item, ""}, {http.MethodDelete, "/media/delete/" + item + "?permanent=true", ""},
		{http.MethodPost, "/media/delete/batch", fmt.Sprintf(`{"mediaIds":[%q]}`, item)},
	} {
		answer, err := w.tools.Send(t.Context(), one.method, one.path, by, runtimetest.Text(one.body), runtimetest.Header("Content-Type", "application/json"))
		must(t, err)
		if answer.Status < 400 && !bytes.Contains(answer.Body, []byte("allow this first")) {
			t.Errorf("%s %s: %d %s", one.method, one.path, answer.Status, answer.Body)
		}
		untouched(one.method + " " + one.path)
	}

	// The page with the credential of the one who asks, and without the session of the owner.
	fields := func(change ...string) url.Values {
		values := url.Values{"decision": {"allow"}, "approval": {q.ApprovalID}, "account": {tenant.Account.ID.String()}, "revision": {p.Fields().Get("revision")}}
		for i := 0; i+1 < len(change); i += 2 {
			values.Set(change[i], change[i+1])
		}
		return values
	}
	token := func(r *http.Request) { by(&runtimetest.Request{Header: r.Header}) }
	key := func(r *http.Request) { r.Header.Set("X-Service-Apikey", tenant.Key) }
	evil := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	same := func(*http.Request) {}
	noToken := webtest.Page{Response: p.Response, Text: ""}
	madeUp := webtest.Page{Response: p.Response, Text: strings.ReplaceAll(p.Text, p.Fields().Get("csrf"), strings.Repeat("A", 43))}
	mixed := webtest.Page{Response: p.Response, Text: strings.ReplaceAll(p.Text, p.Fields().Get("csrf"), sp.Fields().Get("csrf"))}
	ownSession := webtest.Page{Response: sp.Response, Text: sp.Text}
	for what, one := range map[string]struct {
		by     *webtest.Browser
		page   webtest.Page
		fields url.Values
		change func(*http.Request)
	}{
		"the token of the grant":                   {anonymous, noToken, fields(), token},
		"the token of the grant and the fields":    {anonymous, p, fields(), token},
		"the key":                                  {anonymous, noToken, fields(), key},
		"the key and the fields":                   {anonymous, p, fields(), key},
		"another site":                             {owner, p, fields(), evil},
		"a sibling of the host":                    {owner, p, fields(), func(r *http.Request) { evil(r); r.Header.Set("Sec-Fetch-Site", "same-site") }},
		"an opaque origin":                         {owner, p, fields(), func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") }},
		"no CSRF token":                            {owner, noToken, fields("request", p.Fields().Get("request")), same},
		"a CSRF token that is made up":             {owner, madeUp, fields(), same},
		"the CSRF token of another session":        {owner, mixed, fields(), same},
		"a browser without the cookie":             {anonymous, p, fields(), same},
		"another browser of the owner":             {second, p, fields(), same},
		"a session that is not logged in":          {anonymous, anonymousPage, fields(), same},
		"a login for an application":               {consenting, consentPage, fields(), same},
		"the owner of another account":             {foreigner, foreignPage, fields(), same},
		"another owner with the own account":       {foreigner, foreignPage, fields("account", foreign.Account.ID.String()), same},
		"another owner with the fields of the one": {foreigner, p, fields(), same},
		"JSON":                                 {owner, p, fields(), func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }},
		"a form of many parts":                 {owner, p, fields(), func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=x") }},
		"the method GET":                       {owner, p, fields(), func(r *http.Request) { r.Method = http.MethodGet; r.URL.RawQuery += "&" + fields().Encode() }},
		"the method PUT":                       {owner, p, fields(), func(r *http.Request) { r.Method = http.MethodPut }},
		"an earlier revision":                  {owner, p, fields("revision", "0"), same},
		"a later revision":                     {owner, p, fields("revision", "2"), same},
		"a negative revision":                  {owner, p, fields("revision", "-1"), same},
		"no revision":                          {owner, p, fields("revision", ""), same},
		"a revision that is no number":         {owner, p, fields("revision", "1 OR 1=1"), same},
		"a revision beyond the range":          {owner, p, fields("revision", "4294967297"), same},
		"another approval":                     {owner, p, fields("approval", tenant.Account.ID.String()), same},
		"no approval":                          {owner, p, fields("approval", ""), same},
		"no decision":                          {owner, p, fields("decision", ""), same},
		"a decision in capitals":               {owner, p, fields("decision", "ALLOW"), same},
		"a decision with a space":              {owner, p, fields("decision", "allow "), same},
		"two decisions":                        {owner, p, url.Values{"decision": {"allow", "allow"}, "approval": {q.ApprovalID}, "revision": {"1"}}, same},
		"the other session with its own token": {anonymous, ownSession, fields(), same},
	} {
		if answer := one.by.Send("/account/approval/decide", one.page, one.fields, one.change); answer.StatusCode < 400 && answer.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %d %s", what, answer.StatusCode, answer.Text)
		}
		untouched(what)
	}
	for what, look := range map[string]func(r *http.Request){"the token": token, "the key": key} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, q.URL, nil)
		must(t, err)
		look(r)
		if page := w.pages.Browser(t).Do(r); page.StatusCode == http.StatusOK || strings.Contains(page.Text, "target.txt") {
			t.Errorf("with %s the page is %d %s", what, page.StatusCode, page.Text)
		}
		untouched("the page with " + what)
	}

	// Others learn nothing of the approval.
	unknown := object{"approvalId": item}
	for what, one := range map[string]struct {
		by        runtimetest.Option
		arguments object
	}{"another application of the owner": {another, object{"approvalId": q.ApprovalID}}, "a key of the account": {runtimetest.Key(tenant.Key), object{"approvalId": q.ApprovalID}},
		"a key of another account": {runtimetest.Key(foreign.Key), object{"approvalId": q.ApprovalID}}, "an id of nothing": {by, unknown}} {
		if result := call(t, w.tools, one.by, "get_approval", one.arguments); !result.IsError || !strings.Contains(result.text(), "there is no such request") {
			t.Errorf("%s: %s", what, result.text())
		}
		untouched(what)
	}
	if page := foreigner.Get(q.path()); page.StatusCode != http.StatusForbidden || strings.Contains(page.Text, "target.txt") {
		t.Errorf("another owner sees %d %s", page.StatusCode, page.Text)
	}
	untouched("the page as another owner")
	if forged < 60 {
		t.Errorf("%d forgeries", forged)
	}
	// The owner can still decide.
	decide(owner, p, "allow")
	if got := w.ended(t, by, q); got.Results[0].Outcome != "done" {
		t.Errorf("the owner: %+v", got)
	}
}

// A yes is for one item as it was, of a connection that still may, and once.
func TestAllowed_OnlyWhatTheOwnerHasSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for what, one := range map[string]struct {
		meanwhile func(of runtimetest.Tenant, item string, q question) // after the owner has opened the page
		after     func(of runtimetest.Tenant, item string, q question) // after the yes
		outcome   string                                               // empty = the yes itself is rejected
	}{
		"an item that was changed": {meanwhile: func(_ runtimetest.Tenant, item string, _ question) {
			w.Exec(t, "UPDATE stored_item SET version = version + 1 WHERE id = '"+item+"'")
		}, outcome: "changed"},
		"an item that was changed after the yes": {after: func(_ runtimetest.Tenant, item string, _ question) {
			w.Exec(t, "UPDATE stored_item SET version = version + 1 WHERE id = '"+item+"'")
		}, outcome: "changed"},
		"an item that is gone": {after: func(_ runtimetest.Tenant, item string, _ question) {
			w.Exec(t, "DELETE FROM stored_item WHERE id = '"+item+"'")
		}, outcome: "changed"},
		"a request that was changed": {after: func(_ runtimetest.Tenant, _ string, q question) {
			w.Exec(t, "UPDATE approval_step SET arguments = '{\"x\":1}' WHERE approval_id = '"+q.ApprovalID+"'")
		}, outcome: "failed"},
		"a request for another version": {after: func(_ runtimetest.Tenant, _ string, q question) {
			w.Exec(t, "UPDATE approval_step SET version = version + 1 WHERE approval_id = '"+q.ApprovalID+"'")
		}, outcome: "failed"},
		"a request that was turned into another": {after: func(_ runtimetest.Tenant, _ string, q question) {
			w.Exec(t, "UPDATE approval_step SET operation = 'seal_media' WHERE approval_id = '"+q.ApprovalID+"'")
		}, outcome: "failed"},
		"an application that has lost its access": {after: func(_ runtimetest.Tenant, _ string, q question) {
			w.Exec(t, "UPDATE oauth_grant SET revoked_at = now() WHERE id = (SELECT grant_id FROM approval WHERE id = '"+q.ApprovalID+"')")
		}, outcome: "failed"},
		"an account that is read-only by now": {after: func(of runtimetest.Tenant, _ string, _ question) {
			w.Change(t, of, func(s *account.Spec) { s.ToolPolicy.ReadOnly = true; s.Owners = []string{runtimetest.Owner} })
		}, outcome: "failed"},
		"an owner who has lost the account after the yes": {after: func(of runtimetest.Tenant, _ string, q question) {
			w.Exec(t, "UPDATE approval SET decided_by = 'former@example.org' WHERE id = '"+q.ApprovalID+"'")
		}, outcome: "failed"},
		"a suspended account": {after: func(of runtimetest.Tenant, _ string, _ question) {
			w.Change(t, of, func(s *account.Spec) { s.Suspended = true })
		}, outcome: "failed"},
		"a question that has expired": {meanwhile: func(_ runtimetest.Tenant, _ string, q question) {
			w.Exec(t, "UPDATE approval SET expires_at = now() WHERE id = '"+q.ApprovalID+"'")
		}},
		"a question that was denied": {meanwhile: func(_ runtimetest.Tenant, _ string, q question) {
			w.Exec(t, "UPDATE approval SET state = 'denied' WHERE id = '"+q.ApprovalID+"'")
		}},
	} {
		t.Run(what, func(t *testing.T) {
			tenant := w.tenant(t, strings.ReplaceAll(strings.ToLower(what), " ", "-"))
			by := w.application(t, tenant)
			item := w.sealed(t, tenant, "a.txt")
			q := w.asked(t, by, "delete_media", object{"mediaId": item})
			b, p := w.open(t, q)
			if one.meanwhile != nil {
				one.meanwhile(tenant, item, q)
			}
			answer := decide(b, p, "allow")
			if one.outcome == "" {
				answer.Says(t, http.StatusConflict, "has changed, was decided before, or has expired")
			} else {
				answer.Says(t, http.StatusOK, "being carried out")
			}
			if one.after != nil {
				one.after(tenant, item, q)
			}
			w.carryOut(t, q)
			w.Counts(t, 0, "deleted items", `SELECT count(*) FROM stored_item WHERE id = $1 AND deleted_at IS NOT NULL`, item)
			if one.outcome != "" {
				if got := w.Text(t, `SELECT state FROM approval_step WHERE approval_id = $1`, q.ApprovalID); got != one.outcome {
					t.Errorf("the step is %s, want %s", got, one.outcome)
				}
			}
			if one.outcome == "changed" { // a model must not take it for a change that was made
				if got := w.told(t, by, q); got.Results[0].Outcome != "outdated" {
					t.Errorf("get_approval tells %+v", got)
				}
			}
		})
	}
}

// A yes that was carried out is none for the item that was restored, and neither is the question of before.
func TestAllowed_IsNoYesForLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	item := w.sealed(t, tenant, "a.txt")
	q := w.asked(t, by, "delete_media", object{"mediaId": item})
	b, p := w.open(t, q)
	decide(b, p, "allow")
	w.carryOut(t, q)
	if n := w.deleted(t); n != 1 {
		t.Fatalf("%d items were deleted", n)
	}
	if result := call(t, w.tools, by, "restore_media", object{"mediaId": item}); result.IsError {
		t.Fatal(result.text())
	}
	decide(b, p, "allow").Says(t, http.StatusConflict, "decided before")
	decide(b, p, "more").Says(t, http.StatusConflict, "decided before")
	w.carryOut(t, q)
	later := w.asked(t, by, "delete_media", object{"mediaId": item})
	if later.ApprovalID == q.ApprovalID || w.deleted(t) != 0 {
		t.Errorf("the yes of before was used again: %+v", later)
	}
	w.Counts(t, 0, "allowances", `SELECT count(*) FROM approval_allowance`)
}
