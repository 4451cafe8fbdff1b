package approval_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/scanner"
)

// The yes of an owner seals what the gate lets through: a clean file is sealed once it is checked, and one with something in it is not, whether the
// result comes before the yes or after it.
func TestSeal_ThatIsAllowedGoesThroughTheGate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		checkedFirst bool
	}{{"the result is before the yes", true}, {"the yes is before the result", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			clamd := testenv.ClamdServer(t)
			scanners, err := scanner.Config{Clamd: "tcp://" + clamd.Server.Address, Idle: runtimetest.Long}.Scanners()
			must(t, err)
			w.tools = w.service(t, func(c *runtimetest.ServiceConfig) { c.Scanners = scanners })
			tenant := w.tenant(t, "studio", func(s *account.Spec) { s.Gate = account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 8 << 20} })
			by := w.application(t, tenant)
			draft := func(name string, data []byte) (id string) {
				t.Helper()
				id = w.pages.Item(t, w.World, tenant, name, string(data), false).ID.String()
				w.Exec(t, fmt.Sprintf(`UPDATE item SET access = 'public' WHERE id = '%s'`, id)) // before any connection could read it
				return id
			}
			clean, found := draft("clean.txt", []byte("clean")), draft("found.txt", testenv.EICAR())
			if tt.checkedFirst {
				stop := w.run(t)
				wait.UntilNone(t, func() string {
					if w.QueryInt(t, `SELECT count(*) FROM work WHERE kind = 'scan'`) == 0 {
						return ""
					}
					return "files are being checked"
				})
				stop()
			}
			q := w.asked(t, by, "seal_media", object{"mediaId": clean})
			rejected := call(t, w.tools, by, "seal_media", object{"mediaId": found})
			if tt.checkedFirst != rejected.IsError {
				t.Errorf("seal of the file with something in it: %s", rejected.text())
			}
			w.Counts(t, 0, "sealed items before the yes", `SELECT count(*) FROM stored_item WHERE sealed_at IS NOT NULL`)
			b, p := w.open(t, q)
			decide(b, p, "allow").Says(t, http.StatusOK, "You allowed this")
			w.carryOut(t, q)
			w.run(t)
			wait.UntilNone(t, func() string {
				if w.QueryInt(t, `SELECT count(*) FROM item WHERE sealed_at IS NOT NULL`) == 1 && w.QueryInt(t, `SELECT count(*) FROM quarantine`) == 1 {
					return ""
				}
				return "one is not sealed, or the other is not in quarantine"
			})
			w.Counts(t, 1, "sealed items", `SELECT count(*) FROM stored_item WHERE sealed_at IS NOT NULL AND id = $1`, clean)
			w.Counts(t, 1, "seals", `SELECT count(*) FROM journal WHERE type = 'media.sealed'`)
			if got := w.told(t, by, q); got.Results[0].Outcome != "done" {
				t.Errorf("get_approval tells %+v", got)
			}
			actor := w.Text(t, `SELECT actor FROM journal WHERE type = 'media.sealed'`)
			if parsed := account.ParseActor(actor); parsed.ApprovedBy == "" || !strings.Contains(parsed.ApprovedBy, "@example.org") {
				t.Errorf("the journal names %s", actor)
			}
		})
	}
}
