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

// backstage lets the scripts do what no browser can: read a person's mail, and let time pass.
func (s *service) backstage(t *testing.T) string {
	t.Helper()
	stage := http.NewServeMux()
	stage.HandleFunc("GET /letters", func(w http.ResponseWriter, r *http.Request) {
		codes, err := s.codes(r.FormValue("address"))
		answer(w, err, "%d", len(codes))
	})
	// It waits for a letter after those that were there before.
	stage.HandleFunc("GET /code", func(w http.ResponseWriter, r *http.Request) {
		var before int
		_, _ = fmt.Sscan(r.FormValue("before"), &before)
		look := time.NewTicker(10 * time.Millisecond)
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
	stage.HandleFunc("POST /expire", func(w http.ResponseWriter, r *http.Request) {
		conn, err := pgx.Connect(r.Context(), s.database)
		if err != nil {
			answer(w, err, "")
			return
		}
		defer conn.Close(r.Context())
		tag, err := conn.Exec(r.Context(), "UPDATE login_session SET expires_at = now() - interval '1 second' WHERE id = $1", r.FormValue("request"))
		answer(w, err, "%d", tag.RowsAffected())
	})
	server := httptest.NewServer(stage)
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

// inLetter is the code, on a line of its own in the text of the letter.
var inLetter = regexp.MustCompile(`(?m)^ +(\d{8})$`)

// codes returns those that the mail server took for an address, in order.
func (s *service) codes(address string) ([]string, error) {
	printed, err := os.ReadFile(s.mailLog)
	if err != nil {
		return nil, err
	}
	var codes []string
	for _, one := range strings.Split(string(printed), "----- mail from ")[1:] {
		head, letter, _ := strings.Cut(one, "\n")
		letter, _, whole := strings.Cut(letter, "\n----- end of mail\n")
		if !whole || !strings.Contains(head, " to "+address+" at ") {
			continue
		}
		match := inLetter.FindStringSubmatch(letter)
		if match == nil {
			return nil, fmt.Errorf("a letter has no code: %s", letter)
		}
		codes = append(codes, match[1])
	}
	return codes, nil
}
