package mcptasks

import (
	"fmt"
	"slices"
	"testing"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// newStack starts the shipped runtime, with everything that the tasks need.
func newStack(t *testing.T) Stack {
	t.Helper()
	remote, mail := testenv.Files(t, Remote), testenv.MailSink(t, testenv.TempDir(t)+"/mail.log")
	s := Stack{Database: testenv.Postgres(t), Access: testenv.S3(t), RemoteURL: remote.URL}
	s.BaseURL = testenv.Runtime(t, servers.RuntimeConfig{Stores: servers.StoreSettings(s.Database, s.Access), Env: slices.Concat(remote.Settings, mail, servers.Unlimited)}).BaseURL
	return s
}

// Each way that counts as right can be gone: its calls succeed in their order, return what the task says, and are scored as right.
func TestTasks_ExpectedCallsSucceed(t *testing.T) {
	t.Parallel()
	tasks, err := Tasks()
	must(t, err)
	reads, err := Reads()
	must(t, err)
	s := newStack(t)
	db := testenv.Connections(t, s.Database)
	// A job that is not done returns another state, and a model would call again.
	waitForJob := func(call Call, arguments map[string]any) {
		if call.Tool == "get_upload_from_url" {
			wait.Until(t, "the file is downloaded", func() bool {
				var ended int
				must(t, db.QueryRow(t.Context(), `SELECT count(*) FROM fetch_job WHERE id = $1 AND ended_at IS NOT NULL`, arguments["jobId"]).Scan(&ended))
				return ended == 1
			})
		}
	}
	for _, task := range tasks {
		for n, calls := range append([][]Call{task.Calls}, task.Alternatives...) {
			t.Run(fmt.Sprintf("%s %d", task.Name, n+1), func(t *testing.T) {
				session, err := s.open(t.Context(), task)
				must(t, err)
				t.Cleanup(session.close)
				model := &scripted{calls: orders(calls)[0], answer: task.Answer.Example, known: session.known, before: waitForJob}
				transcript, err := session.run(t.Context(), task, model)
				must(t, err)
				if model.made != len(model.calls) {
					t.Fatalf("%d of %d calls were made", model.made, len(model.calls))
				}
				if score := ScoreOf(task, transcript, reads); !score.Right() {
					t.Errorf("it is scored as wrong: %s", score.Wrong)
				}
			})
		}
	}
}
