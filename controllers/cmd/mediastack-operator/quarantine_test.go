package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
)

func TestQuarantine_ListsReleasesAndDeletes(t *testing.T) {
	t.Parallel()
	database := postgres.Config{DatabaseURL: testenv.Postgres(t)}
	conn := testenv.Connections(t, database.DatabaseURL)
	must(t, check.ErrorOf(conn.Exec(t.Context(), `WITH made AS (
			INSERT INTO account (id, namespace, name, namespace_uid, object_uid, display_name, owners, max_storage, max_upload_size, bucket, suspended)
			SELECT ('01900000-0000-7000-8000-00000000000' || n)::uuid, 'team-' || n, 'photos', '', 'uid-' || n, '', '{}', 1000, 1000, 'b' || n, false FROM generate_series(1, 2) n RETURNING id
		), used AS (INSERT INTO account_usage (account_id) SELECT id FROM made)
		INSERT INTO app (id, account_id, name) SELECT id, id, 'default' FROM made`)))
	released, deleted, other := uuid.New(), uuid.New(), uuid.New()
	for i, id := range []uuid.UUID{released, deleted, other} {
		owner := "01900000-0000-7000-8000-000000000001"
		if id == other {
			owner = "01900000-0000-7000-8000-000000000002"
		}
		must(t, check.ErrorOf(conn.Exec(t.Context(), `INSERT INTO quarantine (item_id, account_id, app_id, at, finding, objects, bytes, item)
			VALUES ($1::uuid, $2::uuid, $2::uuid, $3, 'Test.Name', '[{"key": "k", "variant": "original", "bytes": 8}]', 8, jsonb_build_object('id', $1::uuid, 'account_id', $2::uuid, 'app_id', $2::uuid, 'file_name', E'a\tb\u001b.exe',
				'access', 'private', 'caption', '', 'group_label', '', 'objects', '[{"key": "k", "variant": "original", "bytes": 8, "mimeType": "text/plain", "sha256": ""}]'::jsonb, 'bytes', 8,
				'metadata', '{}'::jsonb, 'ref', '', 'derivatives_state', 0, 'facts_version', 3, 'version', 1))`, id, owner, time.Now().Add(-time.Duration(i)*time.Hour))))
	}
	run := func(command interface {
		Run(ctx context.Context, options common, out io.Writer) error
	}) (string, error) {
		var out bytes.Buffer
		err := command.Run(t.Context(), common{}, &out)
		return out.String(), err
	}
	text, err := run(&quarantineListCommand{Database: database, Output: "table"})
	must(t, err)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], released.String()) || !strings.Contains(lines[3], "team-2") || strings.ContainsAny(text, "\t\x1b") || !strings.Contains(text, "a?b?.exe") {
		t.Errorf("%s", text)
	}
	text, err = run(&quarantineListCommand{Database: database, Output: "json", Namespace: "team-2"})
	var file quarantinedFile
	if err != nil || json.Unmarshal([]byte(text), &file) != nil || file.MediaID != other || file.Account != "photos" || file.Finding != "Test.Name" {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := run(&quarantineListCommand{Database: database, Output: "table", Namespace: "none"}); err != nil || text != "no files in quarantine\n" {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := run(&quarantineReleaseCommand{Database: database, MediaID: released}); err != nil || !strings.Contains(text, released.String()+" is a draft") {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := run(&quarantineDeleteCommand{Database: database, MediaID: deleted}); err != nil || !strings.Contains(text, deleted.String()+" is deleted") {
		t.Errorf("%s, %v", text, err)
	}
	for _, id := range []uuid.UUID{released, deleted, uuid.New()} {
		if _, err := run(&quarantineReleaseCommand{Database: database, MediaID: id}); !fault.Is(err, fault.NotFound) {
			t.Errorf("release %s: %v", id, err)
		}
		if _, err := run(&quarantineDeleteCommand{Database: database, MediaID: id}); !fault.Is(err, fault.NotFound) {
			t.Errorf("delete %s: %v", id, err)
		}
	}
	var items, removals, left int
	must(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM item WHERE id = $1 AND gate_state = 2), (SELECT count(*) FROM object_removal), (SELECT count(*) FROM quarantine)`, released).Scan(&items, &removals, &left))
	if items != 1 || removals != 1 || left != 1 {
		t.Errorf("%d items, %d removals, %d files in quarantine", items, removals, left)
	}
}
