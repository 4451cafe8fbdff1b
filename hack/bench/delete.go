package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/minio/minio-go/v7"
)

// deletedBytes is the size of the files that remove deletes.
const deletedBytes = 10_000

// remove compares deletes of sealed items through REST with the least that a delete can be: a statement that deletes the row and counts
// it in a total, and then the removal of the object.
func remove(ctx context.Context, b *bench) error {
	t, e, err := b.serveTenant(ctx, "delete")
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", b.env.server.AdminURL(database), b.Clients))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `CREATE SCHEMA bare; CREATE TABLE bare.item (id uuid PRIMARY KEY, bytes bigint NOT NULL); CREATE TABLE bare.total (items bigint NOT NULL, bytes bigint NOT NULL);
		INSERT INTO bare.total VALUES (0, 0)`); err != nil {
		return err
	}
	defer func() { _, _ = pool.Exec(context.WithoutCancel(ctx), `DROP SCHEMA bare CASCADE`) }()
	c := b.compare("delete", "ratio of deletes/s", []string{"against", "REST/s", "its/s"}, client, service, postgres, store)
	if err := c.measure(ctx, "delete", load{clients: b.Clients, rounds: b.Rounds, calls: int64(b.Deletes)}, []side{b.deleteSide(t, e), b.bareDeleteSide(t, pool)},
		pair{against: 1, target: minimum(0.4), name: "delete against pgx and minio-go", cells: []string{"pgx and minio-go"}, cpu: map[string]*target{postgres: maximum(0.7), service: maximum(0.5)}}); err != nil {
		return err
	}
	c.print()
	b.note("%d clients; %d sealed items of %s in each round, one of which was read before: the runtime caches items, and deletes wait for that; no object is left", b.Clients, b.Deletes, sizeName(deletedBytes))
	return nil
}

// deleteSide deletes items through REST, which it stores before each round.
func (b *bench) deleteSide(t tenant, e *endpoint) side {
	var ids []string
	f := newForm("bench.bin", randomBytes(deletedBytes))
	return side{
		name: "REST",
		before: func(ctx context.Context) error {
			var mu sync.Mutex
			ids = nil
			_, err := b.measure(ctx, load{clients: b.Clients, calls: int64(b.Deletes)}, func(ctx context.Context, _ int64) error {
				draft, err := e.store(ctx, f)
				if err != nil {
					return err
				}
				_, err = e.seal(ctx, draft.MediaID)
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, draft.MediaID)
				return err
			})
			if err != nil {
				return err
			}
			_, err = e.get(ctx, "/media/get/"+ids[0])
			return err
		},
		call: func(ctx context.Context, n int64) error {
			_, err := e.do(ctx, http.MethodDelete, "/media/delete/"+ids[n-1], nil, "", http.StatusOK)
			return err
		},
		after: func(context.Context) error { return t.checkEmpty("media") },
	}
}

// bareDeleteSide deletes rows and objects with nothing around them.
func (b *bench) bareDeleteSide(t tenant, pool *pgxpool.Pool) side {
	data := randomBytes(deletedBytes)
	var ids []uuid.UUID
	key := func(id uuid.UUID) string { return "bare/" + id.String() + "/original" }
	return side{
		name: "pgx and minio-go",
		before: func(ctx context.Context) error {
			ids = make([]uuid.UUID, b.Deletes)
			for i := range ids {
				ids[i] = uuid.Must(uuid.NewV7())
			}
			if _, err := pool.Exec(ctx, `INSERT INTO bare.item SELECT id, $2 FROM unnest($1::uuid[]) id`, ids, deletedBytes); err != nil {
				return err
			}
			_, err := b.measure(ctx, load{clients: b.Clients, calls: int64(b.Deletes)}, func(ctx context.Context, n int64) error {
				_, err := b.env.bare.Client.PutObject(ctx, t.Account.Bucket, key(ids[n-1]), bytes.NewReader(data), deletedBytes, minio.PutObjectOptions{DisableContentSha256: true})
				return err
			})
			return err
		},
		call: func(ctx context.Context, n int64) error {
			done, err := pool.Exec(ctx, `WITH deleted AS (DELETE FROM bare.item WHERE id = $1 RETURNING bytes)
				UPDATE bare.total SET items = items - 1, bytes = total.bytes - deleted.bytes FROM deleted`, ids[n-1])
			if err == nil && done.RowsAffected() != 1 {
				err = fmt.Errorf("the row of %s is missing", ids[n-1])
			}
			if err != nil {
				return err
			}
			return b.env.bare.RemoveObject(ctx, t.Account.Bucket, key(ids[n-1]), minio.RemoveObjectOptions{})
		},
		after: func(context.Context) error { return t.checkEmpty("bare") },
	}
}

// checkEmpty checks that no object is left in a folder.
func (t tenant) checkEmpty(folder string) error {
	err := filepath.WalkDir(filepath.Join(t.bucketDir, folder), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			err = fmt.Errorf("%s is left after the deletes", path)
		}
		return err
	})
	if os.IsNotExist(err) { // the store removes folders that are empty
		return nil
	}
	return err
}
