package testenv_test

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	miniogo "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPostgres_IsolatesTests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	first, second := testenv.Postgres(t), testenv.Postgres(t)
	if first == second {
		t.Fatalf("two databases have the same URL %s", first)
	}
	conn, err := pgx.Connect(ctx, first)
	must(t, err)
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE items (id int)"); err != nil {
		t.Fatal(err)
	}
	var superuser bool
	must(t, conn.QueryRow(ctx, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&superuser))
	if superuser {
		t.Error("tests run as superuser, so they can't find a missing grant")
	}
}

func TestPostgresServer_KeepsDataAndURLOverACrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	conn, err := pgx.Connect(ctx, url)
	must(t, err)
	if _, err := conn.Exec(ctx, "CREATE TABLE items (id int)"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := conn.Ping(ctx); err == nil {
		t.Error("the killed server still answers")
	}
	server.Start()
	conn, err = pgx.Connect(ctx, url)
	must(t, err)
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "INSERT INTO items VALUES (1)"); err != nil {
		t.Error(err)
	}
}

// A commit that was acknowledged is on the replica that is promoted, whatever happens to the primary.
func TestStandby_HasEveryAcknowledgedCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary := testenv.PostgresServer(t)
	conn, err := pgx.Connect(ctx, testenv.Database(t, primary))
	must(t, err)
	name := conn.Config().Database
	dir := testenv.TempDir(t)
	replica, err := primary.Server.StartStandby(ctx, servers.PostgresConfig{Dir: filepath.Join(dir, "replica"), LogFile: filepath.Join(dir, "replica.log"), Volatile: true})
	must(t, err)
	if _, err := conn.Exec(ctx, "CREATE TABLE items (id int); INSERT INTO items VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	must(t, replica.Promote(ctx))
	promoted, err := pgx.Connect(ctx, replica.AdminURL(name))
	must(t, err)
	defer promoted.Close(ctx)
	var id int
	if err := promoted.QueryRow(ctx, "INSERT INTO items SELECT id + 1 FROM items RETURNING id").Scan(&id); err != nil || id != 2 {
		t.Errorf("the promoted replica: %d, %v", id, err)
	}
}

func TestStores_KeepObjects(t *testing.T) {
	t.Parallel()
	for name, access := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roundTrip(t, access(t))
		})
	}
}

func roundTrip(t *testing.T, access servers.S3Access) {
	t.Helper()
	ctx := t.Context()
	client, err := miniogo.New(strings.TrimPrefix(access.Endpoint, "http://"), &miniogo.Options{
		Creds:  credentials.NewStaticV4(access.AccessKey, access.SecretKey, ""),
		Region: access.Region,
	})
	must(t, err)
	bucket := "bucket-" + servers.RandomSecret(6)
	must(t, client.MakeBucket(ctx, bucket, miniogo.MakeBucketOptions{}))
	want := []byte("bytes")
	options := miniogo.PutObjectOptions{DisableContentSha256: true}
	if _, err := client.PutObject(ctx, bucket, "a/b", bytes.NewReader(want), int64(len(want)), options); err != nil {
		t.Fatal(err)
	}
	object, err := client.GetObject(ctx, bucket, "a/b", miniogo.GetObjectOptions{})
	must(t, err)
	t.Cleanup(func() { _ = object.Close() })
	got, err := io.ReadAll(object)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestS3Server_KeepsDataAndAddressOverARestart(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	before := server.Server.Access
	roundTrip(t, before)
	server.Stop()
	server.Start()
	if server.Server.Access != before {
		t.Errorf("access changed from %+v to %+v", before, server.Server.Access)
	}
	roundTrip(t, server.Server.Access)
}
