package postgres_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/upload"
)

// noOutage are the methods that return no error of the database.
var noOutage = map[string]string{
	"Cell":            "it returns a part of the configuration",
	"Close":           "it returns nothing",
	"Register":        "it registers metrics",
	"RegisterUploads": "it registers metrics",
	"Listen":          "it reconnects until its context ends",
	"Follow":          "as Listen",
	"UploadLocks":     "it does not use the database",
	"SetFence":        "it applies to later statements",
	"OnFenced":        "it sets a callback",
	"OnRoomMade":      "it sets a callback",
	"SpendBytes":      "without ceilings it does nothing",
	"OpenTogether":    "the tests have added it",
}

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

// Every method of the store, by reflection, returns Unavailable while the server is down.
func TestStore_EveryMethodUnavailableWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	store := open(t, url)
	_, err := store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute) // what claims jobs has an instance
	must(t, err)
	server.Kill()
	called := 0
	for _, of := range substores(store) {
		for i := range of.NumMethod() {
			name, method := of.Type().Method(i).Name, of.Method(i)
			if _, promoted := reflect.TypeOf(store).MethodByName(name); promoted && of.Type() != reflect.TypeOf(store) || noOutage[name] != "" {
				continue
			}
			called++
			results := method.Call(arguments(t, method.Type()))
			last := results[len(results)-1]
			err, _ := last.Interface().(error)
			if !last.Type().Implements(errorType) || !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s.%s: %v, want Unavailable", of.Type(), name, err)
			}
		}
	}
	if called < 150 {
		t.Errorf("only %d methods were called", called)
	}
}

// substores returns the store, and those of its domains.
func substores(store *postgres.Store) []reflect.Value {
	found := []reflect.Value{reflect.ValueOf(store)}
	fields := reflect.ValueOf(store).Elem()
	for i := range fields.NumField() {
		if field := fields.Type().Field(i); field.IsExported() {
			found = append(found, fields.Field(i))
		}
	}
	return found
}

// arguments returns zero arguments for a method whose query fails.
func arguments(t *testing.T, method reflect.Type) []reflect.Value {
	t.Helper()
	values := make([]reflect.Value, 0, method.NumIn())
	for i := range method.NumIn() {
		switch in := method.In(i); {
		case in == contextType:
			values = append(values, reflect.ValueOf(t.Context()))
		case in.Kind() == reflect.Func:
			values = append(values, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value {
				out := make([]reflect.Value, in.NumOut())
				for n := range out {
					out[n] = reflect.Zero(in.Out(n))
				}
				return out
			}))
		case in.Kind() == reflect.Pointer:
			values = append(values, reflect.New(in.Elem()))
		default:
			values = append(values, reflect.Zero(in))
		}
	}
	return values
}

// tenantWork calls methods as requests do until stop is closed. It returns the texts of the errors
// that are neither nil nor Unavailable.
func tenantWork(t *testing.T, store *postgres.Store, scope media.Scope, stop <-chan struct{}, outages *atomic.Int64) map[string]bool {
	t.Helper()
	wrong := map[string]bool{}
	for {
		select {
		case <-stop:
			return wrong
		default:
		}
		id := uuid.Must(uuid.NewV7())
		_, total := store.Items.Totals(t.Context(), scope)
		_, list := store.Items.ListItems(t.Context(), scope, media.Filter{}, 10, 0)
		opened := store.Uploads.OpenUpload(t.Context(), id, scope, 10, time.Now().Add(time.Hour))
		_, abandoned := store.Uploads.AbandonUpload(t.Context(), id, scope, nil, time.Now())
		state := upload.ResumableState{ItemID: uuid.Must(uuid.NewV7()), Scope: scope, Fields: media.Fields{Access: media.Private}, Length: 1, Reserved: 1, Expires: time.Now().Add(time.Hour)}
		resumable := store.Uploads.OpenResumable(t.Context(), state)
		_, ended := store.Uploads.AbandonUpload(t.Context(), state.ItemID, scope, nil, time.Now())
		for _, err := range []error{total, list, opened, abandoned, resumable, ended} {
			switch {
			case fault.Is(err, fault.Unavailable):
				outages.Add(1)
			case err != nil:
				wrong[err.Error()] = true
			}
		}
	}
}

// A query during which the server fails, in any way, returns Unavailable.
func TestStore_OnlyUnavailableWhileTheServerDies(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	store := open(t, url)
	r := registry(store)
	made, err := r.Ensure(t.Context(), account.Spec{Namespace: "team", Name: "outage", MaxStorage: 1 << 40, MaxUploadSize: 1 << 20})
	must(t, err)
	apps, _, err := r.OpenApps(t.Context(), made.ID, nil)
	must(t, err)
	scope := media.Scope{AccountID: made.ID, AppID: apps[0].ID, Bucket: made.Bucket}

	stop := make(chan struct{})
	var outages atomic.Int64
	var workers sync.WaitGroup
	wrong := make([]map[string]bool, 8)
	for n := range wrong {
		workers.Go(func() { wrong[n] = tenantWork(t, store, scope, stop, &outages) })
	}
	for name, die := range map[string]func(){
		"killed":  func() { server.Kill(); server.Start() },
		"stopped": func() { server.Stop(); server.Start() },
		"disconnecting its clients": func() {
			conn, err := pgx.Connect(t.Context(), url)
			must(t, err)
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
			must(t, err)
		},
	} {
		for range 4 {
			before := outages.Load()
			die()
			wait.Until(t, fmt.Sprintf("a call fails because the server is %s, and the server is back", name), func() bool {
				return outages.Load() > before && store.Ping(t.Context()) == nil
			})
		}
	}
	close(stop)
	workers.Wait()
	for _, texts := range wrong {
		for text := range texts {
			t.Errorf("a server that failed: %s", text)
		}
	}
	t.Logf("%d calls met the outages", outages.Load())
}
