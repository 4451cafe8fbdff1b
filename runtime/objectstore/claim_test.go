package objectstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

func TestClaim_NamesBothInstallations(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, owner := claimed(t, store)
		other := request(bucket, owner)
		other.Owner.InstallationID = uuid.New()
		result, err := store.Claim(t.Context(), other)
		if result != objectstore.ClaimUnchanged || !fault.Is(err, fault.Conflict) || fault.ReasonOf(err) != fault.OtherInstallation {
			t.Errorf("a copy of the account in another installation: %v, %v", result, err)
		}
		for _, id := range []uuid.UUID{owner.InstallationID, other.Owner.InstallationID} {
			if !strings.Contains(fault.From(err).Public, id.String()) {
				t.Errorf("%q does not name %s", err, id)
			}
		}
	})
}

func TestClaim_RewritesAMarkerThatIsBehind(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, owner := claimed(t, store)
		before, err := store.Marker(t.Context(), bucket)
		must(t, err)
		witness := installation.Witness{InstallationID: installationID, Epoch: 1, Heartbeat: 7, Token: uuid.New()}
		must(t, store.WriteWitness(t.Context(), bucket, before, witness))
		moved := request(bucket, owner)
		moved.Owner.Namespace, moved.Owner.Name, moved.Epoch = "team-b", "moved", 2
		for _, want := range []objectstore.ClaimResult{objectstore.ClaimUpdated, objectstore.ClaimUnchanged} {
			if result, err := store.Claim(t.Context(), moved); err != nil || result != want {
				t.Errorf("%v, %v, want %v", result, err, want)
			}
		}
		after, err := store.Marker(t.Context(), bucket)
		must(t, err)
		if after.Epoch != 2 || after.Namespace != "team-b" || after.Name != "moved" || after.Heartbeat != 7 || after.Token != witness.Token || !after.ClaimedAt.Equal(before.ClaimedAt) {
			t.Errorf("the marker is %+v", after)
		}
		if result, err := store.Claim(t.Context(), request(bucket, owner)); result != objectstore.ClaimUnchanged || fault.ReasonOf(err) != fault.Held {
			t.Errorf("a row with an epoch behind the marker's: %v, %v", result, err)
		}
	})
}

// The check keeps what is older than claimedAt, by the times of the store: the clock of an operator
// that is behind would let it remove what an adopted bucket held.
func TestClaim_IsDatedByTheClockOfTheStore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		stored, err := store.Stat(t.Context(), bucket, objectstore.MarkerKey)
		must(t, err)
		marker, err := store.Marker(t.Context(), bucket)
		must(t, err)
		if marker.ClaimedAt.IsZero() || !marker.ClaimedAt.Equal(stored.Modified) {
			t.Errorf("the marker is of %s, and its object of %s", marker.ClaimedAt, stored.Modified)
		}
		marker.ClaimedAt = marker.ClaimedAt.Add(-time.Hour) // as if the heartbeat were later
		must(t, store.WriteWitness(t.Context(), bucket, marker, installation.Witness{InstallationID: installationID, Epoch: 1, Heartbeat: 7}))
		again, err := store.Marker(t.Context(), bucket)
		must(t, err)
		if !again.ClaimedAt.Equal(marker.ClaimedAt) {
			t.Errorf("a heartbeat changed claimedAt from %s to %s", marker.ClaimedAt, again.ClaimedAt)
		}
	})
}

// A witness that replaces what another database wrote meanwhile would hide that there are two.
func TestWriteWitness_ConflictsWithAChangedMarker(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		read, err := store.Marker(t.Context(), bucket)
		must(t, err)
		first := installation.Witness{InstallationID: installationID, Epoch: 1, Heartbeat: 1, Token: uuid.New()}
		second := first
		second.Token = uuid.New()
		must(t, store.WriteWitness(t.Context(), bucket, read, first))
		if err := store.WriteWitness(t.Context(), bucket, read, second); !fault.Is(err, fault.Conflict) {
			t.Errorf("the second write: %v", err)
		}
		if now, err := store.Marker(t.Context(), bucket); err != nil || now.Witness != first {
			t.Errorf("the marker is %+v, %v", now, err)
		}
		must(t, store.Remove(t.Context(), bucket, []string{objectstore.MarkerKey}))
		if err := store.WriteWitness(t.Context(), bucket, read, second); err == nil {
			t.Error("a removed marker was written again")
		}
	})
}

func TestClaim_OfABucketThatVanished(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		for name, test := range map[string]struct {
			claimed, hasMedia, acknowledged, adopt bool
			bucket                                 string // missing, empty, holds the files, or holds others
			want                                   objectstore.ClaimResult
			foreign                                bool
			lost                                   bool
		}{
			"a missing bucket of an account with items is lost":                     {claimed: true, hasMedia: true, bucket: "missing", lost: true},
			"an empty bucket of an account with items is lost":                      {claimed: true, hasMedia: true, bucket: "empty", lost: true},
			"a missing bucket is created again when the loss was acknowledged":      {claimed: true, hasMedia: true, acknowledged: true, bucket: "missing", want: objectstore.BucketRestored},
			"an empty bucket is marked again when the loss was acknowledged":        {claimed: true, hasMedia: true, acknowledged: true, bucket: "empty", want: objectstore.BucketRestored},
			"a bucket with the files that lost its marker is marked again":          {claimed: true, hasMedia: true, bucket: "holds the files", want: objectstore.BucketRestored},
			"a bucket that another user made again with other objects is lost":      {claimed: true, hasMedia: true, bucket: "holds others", lost: true},
			"a bucket with other objects is lost, although adopt is set":            {claimed: true, hasMedia: true, adopt: true, bucket: "holds others", lost: true},
			"a bucket with other objects is marked when the loss was acknowledged":  {claimed: true, hasMedia: true, acknowledged: true, bucket: "holds others", want: objectstore.BucketRestored},
			"a bucket with other objects is not that of an account without items":   {claimed: true, bucket: "holds others", foreign: true},
			"a bucket with other objects is adopted again":                          {claimed: true, adopt: true, bucket: "holds others", want: objectstore.BucketRestored},
			"an empty bucket of an account without items is marked again":           {claimed: true, bucket: "empty", want: objectstore.BucketRestored},
			"a missing bucket without items is created again":                       {claimed: true, bucket: "missing", want: objectstore.BucketRestored},
			"a new bucket is created, whatever the account has":                     {hasMedia: true, bucket: "missing", want: objectstore.BucketClaimed},
			"an empty bucket that was never marked is what a crash leaves of claim": {bucket: "empty", want: objectstore.BucketClaimed},
		} {
			claim := newClaim("b-" + uuid.NewString())
			if test.bucket != "missing" {
				_, err := store.Claim(t.Context(), claim)
				must(t, err)
				must(t, store.Remove(t.Context(), claim.Bucket, []string{objectstore.MarkerKey}))
			}
			switch test.bucket {
			case "holds the files":
				put(t, store, claim.Bucket, "media/x", "text/plain", []byte("x"))
			case "holds others":
				put(t, store, claim.Bucket, "backup/foo.png", "image/png", []byte("x"))
			}
			claim.Claimed, claim.HasMedia, claim.Acknowledged, claim.Adopt = test.claimed, test.hasMedia, test.acknowledged, test.adopt
			if claim.HasMedia {
				claim.Files = []string{"media/gone", "media/x"}
			}
			result, err := store.Claim(t.Context(), claim)
			if !test.lost && !test.foreign {
				if owner, failed := store.Owner(t.Context(), claim.Bucket); err != nil || failed != nil || result != test.want || owner != claim.Owner {
					t.Errorf("%s: %v, %v, %v", name, result, err, failed)
				}
				continue
			}
			if result != objectstore.ClaimUnchanged || !fault.Is(err, fault.Conflict) || (fault.ReasonOf(err) == fault.MediaLost) != test.lost {
				t.Errorf("%s: %v, %v", name, result, err)
			}
			if exists, err := store.BucketExists(t.Context(), claim.Bucket); err != nil || exists != (test.bucket != "missing") {
				t.Errorf("%s: the bucket exists: %v, %v", name, exists, err)
			}
			if _, err := store.Owner(t.Context(), claim.Bucket); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: a marker was written: %v", name, err)
			}
		}
	})
}

// The epoch after the highest number is negative: every marker would be ahead of it.
func TestMarker_WithAnImpossibleCounterIsNotValid(t *testing.T) {
	t.Parallel()
	store := open(t, testenv.S3(t))
	bucket, owner := claimed(t, store)
	for _, counters := range []string{`"epoch":9223372036854775807`, `"epoch":9007199254740993`, `"epoch":-1`, `"epoch":1,"heartbeat":9223372036854775807`} {
		put(t, store, bucket, objectstore.MarkerKey, "application/json", []byte(`{"accountID":"`+owner.AccountID+`","installationID":"`+installationID.String()+`",`+counters+`}`))
		_, err := store.Marker(t.Context(), bucket)
		if text := fault.From(err).Public; !fault.Is(err, fault.Conflict) || !strings.Contains(text, "is not valid") || !strings.Contains(text, objectstore.MarkerKey) {
			t.Errorf("%s: %v", counters, err)
		}
		if _, err := store.Claim(t.Context(), request(bucket, owner)); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: the bucket was claimed: %v", counters, err)
		}
	}
	must(t, store.Remove(t.Context(), bucket, []string{objectstore.MarkerKey}))
	again := request(bucket, owner)
	again.Claimed = true
	if result, err := store.Claim(t.Context(), again); err != nil || result != objectstore.BucketRestored {
		t.Errorf("without the marker: %v, %v", result, err)
	}
}
