package installation_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

func TestGuard_OneOfManyProcessesBeats(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	tenants := s.tenants(4)
	for round := int64(1); round <= 3; round++ {
		s.minutePasses()
		var processes []func()
		for range 8 {
			process := s.process()
			processes = append(processes, func() {
				if err := process.Check(t.Context()); err != nil || process.Writable() != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		together(processes...)
		state := s.state()
		if state.Heartbeat != round {
			t.Errorf("the heartbeat is %d in round %d", state.Heartbeat, round)
		}
		for i, p := range tenants {
			if written := s.marker(p).Witness == state.Witness(); written != (i < 3) {
				t.Errorf("round %d: marker %d is %+v, the row %+v", round, i, s.marker(p).Witness, state.Witness())
			}
		}
	}
}

// A running process sends the object store nothing between two heartbeats.
func TestGuard_ChecksQuietlyBetweenHeartbeats(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	s.tenants(1)
	process := s.process()
	must(t, process.Beat(t.Context()))
	before, heartbeat := s.all.Load(), s.state().Heartbeat
	for range 10 {
		must(t, process.Check(t.Context()))
	}
	if s.all.Load() != before || s.state().Heartbeat != heartbeat {
		t.Errorf("%d requests, heartbeat %d", s.all.Load()-before, s.state().Heartbeat)
	}
}

// diesBeforeMarker is a process that is killed between the row and the marker.
type diesBeforeMarker struct{ *objectstore.Store }

// WriteWitness writes nothing.
func (diesBeforeMarker) WriteWitness(context.Context, string, installation.Marker, installation.Witness) error {
	return fault.New(fault.Unavailable, "killed")
}

func TestGuard_ContinuesAfterACrashBetweenRowAndMarker(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	p := s.tenants(1)[0]
	must(t, s.process().Beat(t.Context()))
	for range 3 { // several in a row
		if err := s.processWith(diesBeforeMarker{s.objects}).Beat(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	if marker := s.marker(p); marker.Heartbeat != 1 || s.state().Heartbeat != 4 {
		t.Fatalf("the marker has heartbeat %d, the row %d", marker.Heartbeat, s.state().Heartbeat)
	}
	next := s.process()
	must(t, next.Beat(t.Context()))
	must(t, next.Writable())
	if state := s.state(); state.Heartbeat != 5 || s.marker(p).Witness != state.Witness() {
		t.Errorf("the row %+v, the marker %+v", state, s.marker(p))
	}
}

func TestGuard_HoldsNothingWhileS3IsAway(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	s := newSite(t, testenv.Postgres(t), server.Server.Access)
	s.tenants(1)
	must(t, s.process().Beat(t.Context()))
	server.Stop()
	s.minutePasses()
	running := s.process()
	if err := running.Check(t.Context()); err != nil || running.Writable() != nil {
		t.Errorf("with S3 away: %v", err)
	}
	// The markers may show that the database was restored: nothing is written before they were read.
	if err := running.BucketsWritable(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("with S3 away since the start buckets may be written: %v", err)
	}
	// What removes something needs a proof.
	if err := running.Beat(t.Context()); !fault.Is(err, fault.Unavailable) || fault.ReasonOf(err) != "" {
		t.Errorf("a proof with S3 away: %v", err)
	}
	if state := s.state(); state.HoldReason != "" || state.Heartbeat != 1 {
		t.Errorf("the row is %+v", state)
	}
	server.Start()
	must(t, running.Check(t.Context()))
	if state := s.state(); state.Heartbeat != 2 || running.BucketsWritable() != nil {
		t.Errorf("with S3 back: %+v, %v", state, running.BucketsWritable())
	}
}

func TestGuard_AllowsNothingBeforeItsFirstCheck(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	s := newSite(t, testenv.Database(t, server), testenv.S3(t))
	process := s.process()
	server.Stop()
	if err := process.Check(t.Context()); !fault.Is(err, fault.Unavailable) || process.Writable() == nil {
		t.Errorf("without a database: %v", err)
	}
	server.Start()
	s.reconnects()
	must(t, process.Check(t.Context()))
	server.Stop()
	if err := process.Check(t.Context()); err != nil { // an outage proves nothing
		t.Errorf("the database is away again: %v", err)
	}
	server.Start()
}

func TestGuard_NamesBothInstallations(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	p := s.tenants(2)[0]
	other := uuid.New()
	original := s.marker(p)
	must(t, s.objects.WriteWitness(t.Context(), p.Account.Bucket, original, installation.Witness{InstallationID: other, Epoch: 1}))
	process := s.process()
	for range 2 {
		err := process.Check(t.Context())
		if fault.ReasonOf(err) != fault.OtherInstallation || !strings.Contains(err.Error(), other.String()) || !strings.Contains(err.Error(), s.state().ID.String()) {
			t.Errorf("%v", err)
		}
	}
	if summary, err := s.purge(time.Now()); err != nil || !strings.Contains(summary.Held, other.String()) || !summary.NeedsAttention {
		t.Errorf("the purge: %+v, %v", summary, err)
	}
	if state := s.state(); state.HoldReason != "" || state.Heartbeat != 0 {
		t.Errorf("the row was changed: %+v", state)
	}
	must(t, s.objects.WriteWitness(t.Context(), p.Account.Bucket, s.marker(p), original.Witness))
	must(t, process.Check(t.Context()))
}

func TestGuard_HoldsAnEpochBehindAMarker(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	p := s.tenants(1)[0]
	must(t, s.objects.WriteWitness(t.Context(), p.Account.Bucket, s.marker(p), installation.Witness{InstallationID: s.state().ID, Epoch: 7}))
	holds(t, "a later epoch", s.process().Check(t.Context()), "epoch 1", "epoch 7", p.Account.Bucket)
}

// Accounts that were erased after a backup have no markers any more: the next ones decide.
func TestGuard_PassesOverBucketsWithoutMarkers(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	tenants := s.tenants(6)
	for _, p := range tenants[:5] {
		must(t, s.objects.Remove(t.Context(), p.Account.Bucket, []string{objectstore.MarkerKey}))
	}
	must(t, s.process().Beat(t.Context()))
	last := tenants[5]
	if s.marker(last).Witness != s.state().Witness() {
		t.Errorf("the marker is %+v", s.marker(last))
	}
	ahead := s.state().Witness()
	ahead.Heartbeat += 10
	must(t, s.objects.WriteWitness(t.Context(), last.Account.Bucket, s.marker(last), ahead))
	holds(t, "the only marker is ahead", s.process().Beat(t.Context()), "heartbeat is 1", "heartbeat 11")
}

func TestGuard_ProvesNothingWithoutAnyMarker(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	must(t, s.process().Beat(t.Context())) // there are no buckets
	p := s.tenants(1)[0]
	must(t, s.objects.Remove(t.Context(), p.Account.Bucket, []string{objectstore.MarkerKey}))
	heartbeat := s.state().Heartbeat
	if err := s.process().Beat(t.Context()); !fault.Is(err, fault.Unavailable) || fault.ReasonOf(err) != "" || !strings.Contains(err.Error(), "proves") {
		t.Errorf("%v", err)
	}
	if summary, err := s.purge(time.Now()); err == nil || summary.Held != "" {
		t.Errorf("the purge: %+v, %v", summary, err)
	}
	// Uploads go on: a lost marker must not stop the uploads of all accounts.
	process := s.process()
	must(t, process.Check(t.Context()))
	if err := process.BucketsWritable(); err != nil {
		t.Errorf("buckets may not be written: %v", err)
	}
	if state := s.state(); state.HoldReason != "" || state.Heartbeat != heartbeat {
		t.Errorf("the row was changed: %+v", state)
	}
}

func TestGuard_HoldsACopyMadeFromATemplate(t *testing.T) {
	t.Parallel()
	url, access := testenv.Postgres(t), testenv.S3(t)
	original := newSite(t, url, access)
	original.sealed(original.tenants(1)[0])
	running := original.process()
	must(t, running.Beat(t.Context()))
	clone := newSite(t, testenv.CopyDatabase(t, url), access)
	original.reconnects()
	for range 3 {
		holds(t, "the clone", clone.process().Check(t.Context()), original.state().Server.String(), clone.state().CurrentServer.String())
	}
	for minute := range 60 {
		if summary, err := clone.purge(time.Now().Add(48*time.Hour + time.Duration(minute)*time.Minute)); err != nil || summary.Held == "" {
			t.Errorf("a purge of the clone: %+v, %v", summary, err)
		}
	}
	if clone.all.Load() != 0 {
		t.Errorf("the clone sent %d requests to the object store", clone.all.Load())
	}
	must(t, running.Check(t.Context()))
	must(t, running.Beat(t.Context()))
}

// The two servers differ in nothing that PostgreSQL knows.
func TestGuard_HoldsACopyOfTheFiles(t *testing.T) {
	t.Parallel()
	server, access := testenv.PostgresServer(t), testenv.S3(t)
	url := testenv.Database(t, server)
	original := newSite(t, url, access)
	p := original.tenants(3)[0]
	original.now = func() time.Time { return time.Now().Add(-48 * time.Hour) }
	kept, expired := original.sealed(p), original.draft(p)
	must(t, original.process().Beat(t.Context()))
	server.Stop()
	copied := testenv.CopyPostgres(t, server)
	server.Start()
	original.reconnects()
	must(t, original.process().Beat(t.Context())) // its processes run
	clone := newSite(t, copied.Server.URL(databaseOf(t, url)), access)
	if clone.state().Server != original.state().Server || clone.state().CurrentServer != original.state().CurrentServer {
		t.Fatal("the servers differ")
	}
	holds(t, "the clone", clone.process().Check(t.Context()), "heartbeat is 1", "heartbeat 2")
	for minute := range 60 {
		if summary, err := clone.purge(time.Now().Add(time.Duration(minute) * time.Minute)); err != nil || summary.Held == "" || summary.DraftsPurged != 0 {
			t.Errorf("a purge of the clone: %+v, %v", summary, err)
		}
	}
	if clone.writes.Load() != 0 {
		t.Errorf("the clone sent %d writes to the object store", clone.writes.Load())
	}
	if _, err := original.objects.Stat(t.Context(), p.Account.Bucket, expired.File().Key); err != nil {
		t.Errorf("the clone removed a draft of the original: %v", err)
	}
	summary, err := original.purge(time.Now())
	if err != nil || summary.DraftsPurged != 1 || summary.RemovalsDone != 1 || summary.Held != "" {
		t.Errorf("a purge of the original: %+v, %v", summary, err)
	}
	if _, err := original.objects.Stat(t.Context(), p.Account.Bucket, kept.File().Key); err != nil {
		t.Errorf("the sealed item lost its file: %v", err)
	}
}

// beatenMeanwhile is a process between whose row and marker another database beats.
type beatenMeanwhile struct {
	*objectstore.Store
	beat func()
}

// WriteWitness writes after the other database.
func (m *beatenMeanwhile) WriteWitness(ctx context.Context, bucket string, read installation.Marker, witness installation.Witness) error {
	if m.beat != nil {
		m.beat()
		m.beat = nil
	}
	return m.Store.WriteWitness(ctx, bucket, read, witness)
}

// Both databases have the same heartbeat, and beat at the same moment: one of them wins.
func TestGuard_OneOfTwoIdenticalDatabasesWins(t *testing.T) {
	t.Parallel()
	server, access := testenv.PostgresServer(t), testenv.S3(t)
	url := testenv.Database(t, server)
	original := newSite(t, url, access)
	p := original.tenants(3)[0]
	must(t, original.process().Beat(t.Context()))
	server.Stop()
	copied := testenv.CopyPostgres(t, server)
	server.Start()
	original.reconnects()
	clone := newSite(t, copied.Server.URL(databaseOf(t, url)), access)
	err := clone.processWith(&beatenMeanwhile{clone.objects, func() { must(t, original.process().Beat(t.Context())) }}).Beat(t.Context())
	holds(t, "the database that writes second", err, "two databases", clone.state().Token.String(), original.state().Token.String())
	if clone.state().Heartbeat != original.state().Heartbeat || original.marker(p).Witness != original.state().Witness() {
		t.Errorf("the clone %+v, the original %+v, the marker %+v", clone.state(), original.state(), original.marker(p))
	}
	must(t, original.process().Beat(t.Context()))
}

func TestGuard_HoldsADatabaseRestoredToAnEarlierTime(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	s := newSite(t, testenv.Database(t, server), testenv.S3(t))
	s.tenants(2)
	must(t, s.process().Beat(t.Context()))
	server.Stop()
	restore := testenv.SaveData(t, server)
	server.Start()
	s.reconnects()
	running := s.process()
	for range 4 {
		must(t, running.Beat(t.Context()))
	}
	server.Stop()
	restore()
	server.Start()
	s.reconnects()
	writes := s.writes.Load()
	s.minutePasses() // a backup is older than a minute
	holds(t, "a process that runs", running.Check(t.Context()), "heartbeat is 1", "heartbeat 5")
	holds(t, "a process that starts", s.process().Check(t.Context()), "heartbeat is 1", "heartbeat 5")
	holds(t, "a proof", s.process().Beat(t.Context()))
	if state := s.state(); state.HoldReason == "" || state.HeldAt == nil || state.Heartbeat != 1 {
		t.Errorf("the row is %+v", state)
	}
	if s.writes.Load() != writes {
		t.Errorf("%d writes", s.writes.Load()-writes)
	}
	state := s.resume()
	if state.Epoch != 2 || state.Heartbeat != 6 || state.HoldReason != "" || state.ResumedAt == nil {
		t.Errorf("after the resume: %+v", state)
	}
	must(t, running.Check(t.Context()))
	must(t, s.process().Beat(t.Context()))
}

// A confirmation is for the database that it was run on: a copy is held from then on.
func TestResume_HoldsTheOtherDatabase(t *testing.T) {
	t.Parallel()
	url, access := testenv.Postgres(t), testenv.S3(t)
	original := newSite(t, url, access)
	p := original.tenants(1)[0]
	running := original.process()
	must(t, running.Beat(t.Context()))
	clone := newSite(t, testenv.CopyDatabase(t, url), access)
	original.reconnects()
	holds(t, "the clone", clone.process().Check(t.Context()))
	clone.resume()
	must(t, clone.process().Beat(t.Context()))
	if marker := clone.marker(p); marker.Epoch != 2 {
		t.Errorf("the marker is %+v", marker)
	}
	original.minutePasses()
	holds(t, "the original", running.Check(t.Context()), "epoch 1", "epoch 2")
}

func TestResume_ReportsAndChangesNothingUntilConfirmed(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	tenants := s.tenants(3)
	must(t, s.process().Beat(t.Context()))
	ahead := s.state().Witness()
	ahead.Heartbeat, ahead.Epoch = 40, 3
	must(t, s.objects.WriteWitness(t.Context(), tenants[2].Account.Bucket, s.marker(tenants[2]), ahead))
	must(t, s.objects.Remove(t.Context(), tenants[1].Account.Bucket, []string{objectstore.MarkerKey}))
	before, writes := s.state(), s.writes.Load()
	resumer := installation.NewResumer(s.store.Installations, s.objects, discard)
	survey, err := resumer.Survey(t.Context())
	must(t, err)
	next := survey.Next()
	if survey.Read != 2 || survey.Missing != 1 || survey.Epoch != 3 || survey.Heartbeat != 40 || next.Epoch != 4 || next.Heartbeat != 41 || !strings.Contains(survey.Evidence(), "epoch 3") {
		t.Errorf("the survey is %+v, next %+v", survey, next)
	}
	if after := s.state(); after.Heartbeat != before.Heartbeat || after.Token != before.Token || after.HoldReason != "" || s.writes.Load() != writes {
		t.Errorf("the survey changed something: %+v", after)
	}
	must(t, s.objects.WriteWitness(t.Context(), tenants[2].Account.Bucket, s.marker(tenants[2]), before.Witness()))
	must(t, s.process().Beat(t.Context()))
	if _, err := resumer.Confirm(t.Context(), survey, 0); !fault.Is(err, fault.Conflict) {
		t.Errorf("a survey that is out of date: %v", err)
	}
}

// A backup of the time when the account was being deleted: it was opened again since, and the
// restored database would erase it.
func TestGuard_HoldsARestoreThatErasesTheOnlyAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	only := s.tenants(1)[0]
	s.sealed(only)
	for range 3 {
		must(t, s.process().Beat(t.Context()))
	}
	s.exec("UPDATE installation SET heartbeat = 1")
	registry := account.NewRegistry(s.store.Accounts, "t", time.Now)
	now := time.Duration(0)
	_, err := registry.Close(t.Context(), only.Account.ID, account.CloseOptions{Erase: true, EraseAfter: &now})
	must(t, err)
	_, err = registry.BeginErasure(t.Context(), only.Account.ID)
	must(t, err)
	operator := s.process()
	holds(t, "the operator", operator.Beat(t.Context()), "heartbeat is 1")

	resumer := installation.NewResumer(s.store.Installations, s.objects, discard)
	survey, err := resumer.Survey(t.Context())
	must(t, err)
	var planned []installation.PlannedDeletion
	must(t, s.store.Installations.PlannedDeletions(t.Context(), func(one installation.PlannedDeletion) error {
		planned = append(planned, one)
		return nil
	}))
	if len(planned) != 1 || planned[0].Account != only.Account.ID || !planned[0].Erasing || planned[0].Items != 1 {
		t.Errorf("the planned deletions are %+v", planned)
	}
	_, err = resumer.Confirm(t.Context(), survey, 24*time.Hour)
	must(t, err)
	if _, err := registry.BeginErasure(t.Context(), only.Account.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("after the confirmation the account can be erased: %v", err)
	}
	must(t, operator.Beat(t.Context()))
}

func TestServer_MatchesWhatIsKnown(t *testing.T) {
	t.Parallel()
	full := installation.Server{System: "7", Database: "16384"}
	for other, want := range map[installation.Server]bool{
		full: true, {System: "7"}: true, {Database: "16384"}: true, {}: true,
		{System: "8", Database: "16384"}: false, {System: "7", Database: "1"}: false, {Database: "1"}: false,
	} {
		if full.Matches(other) != want || other.Matches(full) != want {
			t.Errorf("%q and %q: want %v", full, other, want)
		}
		if parsed := installation.ParseServer(other.String()); parsed != other {
			t.Errorf("%q is parsed as %q", other, parsed)
		}
	}
}

// An ordinary role reads both components.
func TestGuard_RecordsTheServerOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.Postgres(t), testenv.S3(t))
	if state := s.state(); state.Server != (installation.Server{}) {
		t.Fatalf("a new database has recorded %q", state.Server)
	}
	must(t, s.process().Check(t.Context()))
	state := s.state()
	if state.Server != state.CurrentServer || state.Server.System == "" || state.Server.Database == "" {
		t.Errorf("it recorded %q of %q", state.Server, state.CurrentServer)
	}
	if _, err := strconv.ParseUint(state.Server.System, 10, 64); err != nil {
		t.Error(err)
	}
}

func TestConfig_RejectsIntervalsOutOfBounds(t *testing.T) {
	t.Parallel()
	good := installation.Config{CheckInterval: 15 * time.Second, HeartbeatInterval: time.Minute}
	must(t, good.Validate())
	for _, interval := range []time.Duration{0, -time.Second, time.Millisecond, 61 * time.Minute} {
		check, heartbeat := good, good
		check.CheckInterval, heartbeat.HeartbeatInterval = interval, interval
		for name, cfg := range map[string]installation.Config{"CHECK": check, "HEARTBEAT": heartbeat} {
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("SERVICE_INSTALLATION_%s_INTERVAL", name)) {
				t.Errorf("%s %s: %v", name, interval, err)
			}
		}
	}
}
