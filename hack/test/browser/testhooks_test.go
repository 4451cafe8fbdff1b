package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// testHooks serves what no browser can do: read a user's mail, let a login expire, make it an older one, break connections, and make many files.
func (s *service) testHooks(t *testing.T) string {
	t.Helper()
	hooks := http.NewServeMux()
	hooks.HandleFunc("GET /emails", func(w http.ResponseWriter, r *http.Request) {
		codes, err := s.codes(r.FormValue("address"))
		answer(w, err, "%d", len(codes))
	})
	// It waits for an e-mail after those that were there before.
	hooks.HandleFunc("GET /code", func(w http.ResponseWriter, r *http.Request) {
		var before int
		_, _ = fmt.Sscan(r.FormValue("before"), &before)
		look := time.NewTicker(10 * time.Millisecond) //nolint:forbidigo // the browser decides how long to wait
		defer look.Stop()
		for {
			codes, err := s.codes(r.FormValue("address"))
			if err != nil || len(codes) > before {
				answer(w, err, "%s", strings.Join(codes[min(before, len(codes)):], " "))
				return
			}
			select {
			case <-look.C:
			case <-r.Context().Done():
				return
			}
		}
	})
	change := func(statement string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, err := pgx.Connect(r.Context(), s.database)
			if err != nil {
				answer(w, err, "")
				return
			}
			defer conn.Close(r.Context())
			tag, err := conn.Exec(r.Context(), statement, r.FormValue("request"))
			answer(w, err, "%d", tag.RowsAffected())
		}
	}
	hooks.HandleFunc("POST /expire", change("UPDATE login_session SET expires_at = now() - interval '1 second' WHERE id = $1"))
	hooks.HandleFunc("POST /age", change("UPDATE login_session SET logged_in_at = logged_in_at - interval '2 hours' WHERE id = $1"))
	hooks.HandleFunc("POST /cut", func(w http.ResponseWriter, _ *http.Request) { s.front.CloseClientConnections(); answer(w, nil, "") })
	// Makes each picture of an owner 600 times, with ids of before. The copies share their objects.
	hooks.HandleFunc("POST /copy", change(`INSERT INTO stored_item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at, capture)
		SELECT (lpad(to_hex(('x' || substr(replace(i.id::text, '-', ''), 1, 12))::bit(48)::bigint - n), 12, '0') || substr(replace(i.id::text, '-', ''), 13))::uuid,
			i.account_id, i.app_id, n || ' ' || i.file_name, i.access, i.caption, i.group_label, i.objects, i.bytes, i.created_at, i.sealed_at, i.capture
		FROM stored_item i JOIN account a ON a.id = i.account_id CROSS JOIN generate_series(1, 600) n WHERE a.owners @> ARRAY[$1] AND i.file_name LIKE '%.png'`))
	server := httptest.NewServer(hooks)
	t.Cleanup(server.Close)
	return server.URL
}

func answer(w http.ResponseWriter, err error, format string, args ...any) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, format, args...)
}

// codeLine matches the code, on a line of its own in the text of the e-mail.
var codeLine = regexp.MustCompile(`(?m)^ +(\d{8})$`)

// codes returns those that the mail server took for an address, in order.
func (s *service) codes(address string) ([]string, error) {
	printed, err := os.ReadFile(s.mailLog)
	if err != nil {
		return nil, err
	}
	var codes []string
	for _, one := range strings.Split(string(printed), "----- mail from ")[1:] {
		head, email, _ := strings.Cut(one, "\n")
		email, _, whole := strings.Cut(email, "\n----- end of mail\n")
		if !whole || !strings.Contains(head, " to "+address+" at ") {
			continue
		}
		match := codeLine.FindStringSubmatch(email)
		if match == nil {
			return nil, fmt.Errorf("an e-mail has no code: %s", email)
		}
		codes = append(codes, match[1])
	}
	return codes, nil
}
