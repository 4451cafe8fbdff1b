package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
	pgstore "mediastack.dev/runtime/postgres"
)

const (
	// largeFactor is how many times larger than its memory the large database is.
	largeFactor = 10
	// coldTenants is how many accounts have the items, coldItems how many each has in the small database.
	coldTenants = 20
	coldItems   = 1000
	// coldSlices is in how many slices the items are loaded, so the rows of the account that is checked lie far from each other.
	coldSlices = 20
	// checkedItems is how many items that account has.
	checkedItems = 1000
	// searchedKeys is how many objects of a dead process are looked up at once, as the service does it.
	searchedKeys = 500
	// coldClients is how many requests are in flight.
	coldClients = 4
	// purgedPart is how many drafts a purge finds for each request of a round.
	purgedPart = 5
)

// cold compares requests, the purge and the check with a database that is ten times larger than the memory of PostgreSQL with
// those with one that fits into it. Each server has a cgroup of its own, whose limit counts the page cache.
func cold(ctx context.Context, b *bench) error {
	var sides []*coldSide
	for _, name := range []string{"small", "large"} {
		s, err := b.startCold(ctx, name)
		if s != nil {
			defer s.close()
		}
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	c := b.compareTimes("small", "large", client, service+", small", service+", large", postgres+", small", postgres+", large", store)
	statements := newStatementTable()
	for _, one := range coldRequests {
		if err := b.measureCold(ctx, c, &statements, one, sides); err != nil {
			return err
		}
	}
	c.print()
	b.note("")
	statements.print(b.out)
	b.note("")
	memory := table{{"PostgreSQL", "MiB of the database", "MiB of its memory, limit", "most"}}
	for _, s := range sides {
		memory.row(s.name, number(mebibytes(uint64(s.bytes))), fmt.Sprint(b.DatabaseMemory), number(mebibytes(uint64(s.memory.used()))))
	}
	memory.print(b.out)
	b.note("%d clients; items are chosen at random from %d accounts; the item cache is off; shared_buffers are a quarter of the memory; blocks that were read were in the page cache of the cgroup, or on the disk", coldClients, coldTenants)
	return nil
}

// measureCold measures one kind of requests.
func (b *bench) measureCold(ctx context.Context, c *comparison, statements *table, one coldRequest, sides []*coldSide) error {
	logs := []statementLog{{}, {}}
	var compared []side
	for i, s := range sides {
		if err := (statementLog{}).read(ctx, s.env.server.AdminURL(database)); err != nil { // what came before
			return err
		}
		compared = append(compared, countStatements(one.of(s), logs[i], s.env.server.AdminURL(database)))
	}
	l := load{clients: coldClients, rounds: b.Rounds, calls: int64(b.Calls)}
	if one.calls != nil {
		l.clients, l.calls = 1, one.calls(b.Calls)
	}
	if err := c.measureTimes(ctx, one.what, l, compared, one.target); err != nil {
		return err
	}
	for i, s := range sides {
		statements.statements(one.what, s.name, logs[i].costliest(2))
	}
	return nil
}

// coldRequest is what is compared.
type coldRequest struct {
	what string
	of   func(s *coldSide) side
	// calls returns how many calls one client makes in a round; nil = all clients make as many as the benchmark has.
	calls  func(of int) int64
	target *target
}

// coldRequests are in an order in which each leaves the others what they need: the seals have the drafts of the uploads, and the
// searches find all items.
var coldRequests = []coldRequest{
	{what: "upload of 10 KB", of: (*coldSide).uploads, target: maximum(2)},
	{what: "seal", of: (*coldSide).seals, target: maximum(2)},
	{what: "get", of: func(s *coldSide) side {
		return s.reads(func(one coldItem) string { return "/media/get/" + one.ID.String() })
	}},
	{what: "list, first page", of: func(s *coldSide) side { return s.reads(func(coldItem) string { return "/media/get?limit=10" }) }},
	{what: "list, deep page", of: func(s *coldSide) side {
		return s.reads(func(coldItem) string { return page(1+rand.IntN(max(1, s.items/coldTenants/10)), "") })
	}},
	{what: "filter by name, one item", of: func(s *coldSide) side {
		return s.reads(func(one coldItem) string { return "/media/get?limit=10&name=" + one.FileName })
	}},
	{what: "filter by type, all items", of: func(s *coldSide) side {
		return s.reads(func(coldItem) string { return "/media/get?limit=10&type=image%2F*" })
	}},
	{what: "sort by name", of: func(s *coldSide) side {
		return s.reads(func(coldItem) string { return "/media/get?limit=10&sort=name" })
	}},
	{what: "count", of: func(s *coldSide) side { return s.reads(func(coldItem) string { return "/media/get/count" }) }},
	{what: "count by name, one item", of: func(s *coldSide) side {
		return s.reads(func(one coldItem) string { return "/media/get/count?name=" + one.FileName })
	}},
	{what: "search of objects, 500", of: (*coldSide).searches, calls: searchesOf},
	{what: "delete", of: (*coldSide).deletes},
	{what: "purge", of: (*coldSide).purges, calls: once},
	{what: "check of 1000 items", of: (*coldSide).checks, calls: once},
}

func searchesOf(requests int) int64 { return int64(max(1, requests/20)) }

func once(int) int64 { return 1 }

// coldItem is an item that a request is about, and the account that has it.
type coldItem struct {
	ID       uuid.UUID
	AppID    uuid.UUID
	FileName string
}

// coldSide is a PostgreSQL in a cgroup of its own, with a runtime.
type coldSide struct {
	*bench
	name    string
	env     *environment // with this server
	memory  *memoryGroup
	runtime *endpoint
	tenants []tenant
	checked tenant
	of      map[uuid.UUID]*endpoint // by app
	items   int
	bytes   int64 // of the database
	store   *pgstore.Store

	read, deleted                       []coldItem
	searched                            []coldSearch
	nextRead, nextDeleted, nextSearched atomic.Int64
	mu                                  sync.Mutex
	drafts                              []coldDraft
	purged                              int // drafts that were loaded for the purge
}

// coldDraft is a draft that a seal may have.
type coldDraft struct {
	id string
	e  *endpoint
}

// coldSearch is objects of an account that are looked up.
type coldSearch struct {
	account account.Account
	keys    []string
}

// startCold loads a database without a limit on memory, and starts its server again within one.
func (b *bench) startCold(ctx context.Context, name string) (*coldSide, error) {
	limit := int64(b.DatabaseMemory) << 20
	group, err := makeMemoryGroup(fmt.Sprintf("mediastack-bench-%d-%s", os.Getpid(), name), limit)
	if err != nil {
		return nil, err
	}
	env := *b.env
	s := &coldSide{bench: b, name: name, env: &env, memory: group, of: map[uuid.UUID]*endpoint{}}
	settings := func(more map[string]string) servers.PostgresConfig {
		all := maps.Clone(countedStatements)
		maps.Copy(all, map[string]string{"max_wal_size": "512MB"})
		maps.Copy(all, more)
		return servers.PostgresConfig{Dir: filepath.Join(env.dir, "postgres-"+name), LogFile: filepath.Join(env.dir, "postgres-"+name+".log"), Volatile: env.volatile, Settings: all}
	}
	// Without durable commits until the end: a load that is cut off is worth nothing.
	loading := settings(map[string]string{"shared_buffers": "512MB", "maintenance_work_mem": "256MB", "synchronous_commit": "off"})
	if env.server, err = env.group.StartPostgres(ctx, loading); err != nil {
		return s, err
	}
	if err := env.server.CreateDatabase(ctx, database); err != nil {
		return s, err
	}
	if err := s.load(ctx, limit); err != nil {
		return s, err
	}
	env.server.Stop()
	if err := forgetFiles(loading.Dir); err != nil {
		return s, err
	}
	if env.server, err = env.group.StartPostgres(ctx, settings(map[string]string{"shared_buffers": fmt.Sprintf("%dMB", max(16, b.DatabaseMemory/4))})); err != nil {
		return s, err
	}
	// The first process before its children: it must start none outside of the group meanwhile.
	if err := group.add(env.server.PID()); err != nil {
		return s, err
	}
	if err := group.add(servers.Children(env.server.PID())...); err != nil {
		return s, err
	}
	env.watched[postgres+", "+name] = env.server.PID()
	return s, s.serve(ctx)
}

// serve starts the runtime, and makes an endpoint of each account.
func (s *coldSide) serve(ctx context.Context) (err error) {
	if s.runtime, err = s.env.serve(ctx, service+", "+s.name, s.tenants[0], "SERVICE_ITEM_CACHE_ENTRIES=0"); err != nil {
		return err
	}
	for _, t := range s.tenants {
		e := *s.runtime
		e.key = t.APIKey
		s.of[t.AppID] = &e
	}
	s.store, err = pgstore.Open(ctx, pgstore.Config{DatabaseURL: s.env.server.URL(database)})
	return err
}

// load loads the items: a number of them, or until the database is as large as it has to be.
func (s *coldSide) load(ctx context.Context, limit int64) error {
	names := []string{"checked"}
	for i := range coldTenants {
		names = append(names, fmt.Sprintf("cold-%02d", i))
	}
	tenants, err := s.env.tenants(ctx, names...)
	if err != nil {
		return err
	}
	s.checked, s.tenants = tenants[0], tenants[1:]
	wanted := int64(0)
	slice := coldTenants * coldItems / coldSlices
	if s.name == "large" {
		const usual = 1600 // bytes of an item after loads
		wanted = int64(s.coldFactor) * limit
		slice = max(slice, int(wanted/usual/coldSlices))
	}
	var checked []uuid.UUID
	for n := 0; n < coldSlices || s.bytes < wanted; n++ {
		if _, err := s.env.load(ctx, s.tenants, seed{items: slice, first: s.items, access: third}); err != nil {
			return err
		}
		s.items += slice
		if n < coldSlices {
			ids, err := s.env.load(ctx, []tenant{s.checked}, seed{items: checkedItems / coldSlices, first: n * checkedItems / coldSlices, access: third, object: smallObject})
			if err != nil {
				return err
			}
			checked = append(checked, ids...)
		}
		if err := s.measureDatabase(ctx); err != nil {
			return err
		}
		s.say("%s: %s database, %d items loaded, %.0f MiB", s.bench.name, s.name, s.items, mebibytes(uint64(s.bytes)))
	}
	data := randomBytes(draftBytes)
	stored := *s.bench
	stored.env = s.env
	if err := stored.storeObjects(ctx, s.checked, checked, func(uuid.UUID) []byte { return data }); err != nil {
		return err
	}
	if err := s.env.count(ctx, tenants...); err != nil {
		return err
	}
	if err := s.env.vacuum(ctx); err != nil {
		return err
	}
	if err := s.compact(ctx); err != nil {
		return err
	}
	if s.read, err = s.sample(ctx); err != nil {
		return err
	}
	if err := s.chooseSearched(ctx, int(searchesOf(s.Calls))*(s.Rounds+1)); err != nil {
		return err
	}
	half := len(s.read) / 2
	s.read, s.deleted = s.read[:half], s.read[half:]
	return errors.Join(s.env.execute(ctx, "CHECKPOINT"), s.measureDatabase(ctx))
}

// smallObject is the only object of an item, which is stored.
func smallObject(id uuid.UUID) (objects string, bytes int64) {
	return fmt.Sprintf(`[{"variant":"original","key":%q,"bytes":%d,"mimeType":"application/octet-stream","sha256":"%064x"}]`,
		media.ObjectKey(id, media.Original), draftBytes, id[8:]), draftBytes
}

// compact has the index of pages counted.
func (s *coldSide) compact(ctx context.Context) error {
	store, err := pgstore.Open(ctx, pgstore.Config{DatabaseURL: s.env.server.URL(database)})
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Items.CompactPageIndex(ctx)
}

// measureDatabase reads how large the database is.
func (s *coldSide) measureDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&s.bytes)
}

// sample chooses items at random, at most twenty for each request of all rounds.
func (s *coldSide) sample(ctx context.Context) ([]coldItem, error) {
	conn, err := pgx.Connect(ctx, s.env.server.AdminURL(database))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	most := 20 * s.Calls * (s.Rounds + 1)
	rows, err := conn.Query(ctx, `SELECT id, app_id, file_name FROM stored_item TABLESAMPLE BERNOULLI ($1) WHERE sealed_at IS NOT NULL AND app_id <> $2 ORDER BY random() LIMIT $3`,
		min(100, 120*float64(most)/float64(s.items)), s.checked.AppID, most)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[coldItem])
}

// forgetFiles removes the files of a server that is stopped from the page cache, where they count as memory of others.
func forgetFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		// What was not written to the disk yet would stay.
		return errors.Join(unix.Fdatasync(int(file.Fd())), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED), file.Close())
	})
}

// close ends the servers, and removes the database: both together would need more room on the disk.
func (s *coldSide) close() {
	if s.store != nil {
		s.store.Close()
	}
	if s.runtime != nil {
		s.runtime.Stop()
	}
	if s.env.server != nil && s.env.server != s.bench.env.server {
		s.env.server.Stop()
		_ = os.RemoveAll(s.env.server.Dir())
	}
	s.memory.close()
}

// next returns the item of the next call, of all rounds.
func (s *coldSide) next() coldItem { return s.read[int(s.nextRead.Add(1))%len(s.read)] }

// reads asks for a path that depends on an item.
func (s *coldSide) reads(path func(coldItem) string) side {
	return side{name: s.name, call: func(ctx context.Context, _ int64) error {
		one := s.next()
		_, err := s.of[one.AppID].get(ctx, path(one))
		return err
	}}
}

// uploads uploads small files to the accounts in turns, and keeps the drafts for the seals.
func (s *coldSide) uploads() side {
	f := newForm("bench.bin", randomBytes(10_000))
	return side{name: s.name, call: func(ctx context.Context, n int64) error {
		e := s.of[s.tenants[n%int64(len(s.tenants))].AppID]
		draft, err := e.store(ctx, f)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drafts = append(s.drafts, coldDraft{draft.MediaID, e})
		return nil
	}}
}

// seals seals the drafts of the uploads, each once.
func (s *coldSide) seals() side {
	return side{name: s.name, call: func(ctx context.Context, _ int64) error {
		s.mu.Lock()
		if len(s.drafts) == 0 {
			s.mu.Unlock()
			return errors.New("no draft is left to seal")
		}
		one := s.drafts[0]
		s.drafts = s.drafts[1:]
		s.mu.Unlock()
		_, err := one.e.seal(ctx, one.id)
		return err
	}}
}

// deletes deletes items, each once.
func (s *coldSide) deletes() side {
	return side{name: s.name, call: func(ctx context.Context, _ int64) error {
		n := int(s.nextDeleted.Add(1)) - 1
		if n >= len(s.deleted) {
			return errors.New("no item is left to delete")
		}
		one := s.deleted[n]
		_, err := s.of[one.AppID].do(ctx, http.MethodDelete, "/media/delete/"+one.ID.String(), nil, "", http.StatusOK)
		return err
	}}
}

// searches looks up the objects of items that follow each other, as the search for what dead processes have left does. All of
// them have an item.
func (s *coldSide) searches() side {
	return side{name: s.name, call: func(ctx context.Context, _ int64) error {
		one := s.searched[int(s.nextSearched.Add(1))%len(s.searched)]
		queued, err := s.store.Uploads.QueueUnrecorded(ctx, one.account.ID, one.account.Bucket, one.keys)
		if err == nil && queued != 0 {
			err = fmt.Errorf("%d objects of items are taken to have none", queued)
		}
		return err
	}}
}

// chooseSearched chooses the objects of searches, before their rows must not be in the memory.
func (s *coldSide) chooseSearched(ctx context.Context, searches int) error {
	conn, err := pgx.Connect(ctx, s.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for n := range searches {
		t := s.tenants[n%len(s.tenants)]
		rows, err := conn.Query(ctx, `SELECT id FROM stored_item WHERE account_id = $1 AND id >= (
			SELECT id FROM stored_item WHERE account_id = $1 ORDER BY id OFFSET $2 LIMIT 1) ORDER BY id LIMIT $3`,
			t.Account.ID, rand.IntN(max(1, s.items/coldTenants-searchedKeys)), searchedKeys)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		one := coldSearch{account: t.Account}
		for _, id := range ids {
			one.keys = append(one.keys, media.WriterKey(id, media.Original, 1))
		}
		s.searched = append(s.searched, one)
	}
	return nil
}

// purges purges old drafts, which are loaded before each call but that of the warm-up round. Their objects are not in the store.
func (s *coldSide) purges() side {
	number := purgedPart * s.Calls
	refill := func(ctx context.Context) error {
		_, err := s.env.load(ctx, s.tenants, seed{items: number, first: s.items + s.purged, access: third, drafts: true})
		s.purged += number
		return err
	}
	purging := *s.bench
	purging.env = s.env
	return side{name: s.name, after: refill, call: func(ctx context.Context, _ int64) error {
		summary, err := purging.runPurge(ctx)
		if err == nil && summary.RemovalsFailed != 0 {
			err = fmt.Errorf("the purge reports: %+v", summary)
		}
		return err
	}}
}

// checks checks the account whose rows lie far from each other.
func (s *coldSide) checks() side {
	return side{name: s.name, call: func(ctx context.Context, _ int64) error {
		binary, err := setup.FindBinary(servers.RuntimeBinary)
		if err != nil {
			return err
		}
		command := exec.CommandContext(ctx, binary, "check", "--account", s.checked.Account.Namespace+"/"+s.checked.Account.Name)
		command.Env = slices.Concat(os.Environ(), s.env.storeSettings())
		var output bytes.Buffer
		command.Stdout, command.Stderr = &output, &output
		if err := command.Run(); err != nil {
			return fmt.Errorf("the check: %w: %.1000s", err, output.String())
		}
		return nil
	}}
}
