package mediaaccount

import (
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
)

func at(second int64) metav1.Time { return metav1.Unix(second, 0) }

func accountUsage(items int64) account.Usage {
	return account.Usage{SealedItems: items, SealedBytes: 100 * items}
}

// databaseTime is the time of the database in these tests.
var databaseTime = time.Unix(1_000_000, 0)

// keyPair is a key with its token, as a Secret and PostgreSQL share it.
type keyPair struct {
	token account.KeySecret
	key   account.Key
}

// newKey returns a delivered key that is an hour old, unless change says otherwise.
func newKey(t *testing.T, sequence int64, change ...func(*account.Key)) keyPair {
	t.Helper()
	token, err := account.NewKeySecret(0)
	if err != nil {
		t.Fatal(err)
	}
	before := databaseTime.Add(-time.Hour)
	pair := keyPair{token: token, key: account.Key{ID: uuid.New(), Hash: token.Hash(), Generation: 1, Sequence: sequence, ObjectUID: "uid-1", CreatedAt: before, DeliveredAt: &before}}
	for _, change := range change {
		change(&pair.key)
	}
	return pair
}

func pending(key *account.Key)   { key.DeliveredAt = nil }
func ending(key *account.Key)    { end := databaseTime.Add(time.Minute); key.ExpiresAt = &end }
func fresh(key *account.Key)     { key.CreatedAt = databaseTime.Add(-500 * time.Millisecond) }
func elsewhere(key *account.Key) { key.ObjectUID = "uid-before" }
func replacing(key *account.Key) { key.ReplacesSecret = true }

func desiredOf(generation int64) desiredSecret {
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", UID: "uid-1"}}
	return desiredSecret{
		object: object, app: account.App{Name: "default"}, name: "demo.default.media",
		generation: generation, newGeneration: generation, overlap: time.Hour,
		data: map[string]string{v1alpha1.SecretBaseURL: "https://media.example.org", v1alpha1.SecretApp: "default"},
	}
}

func TestPlanSecret_ChoosesTheAction(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	current, older, unknown := newKey(t, 2), newKey(t, 1, ending), newKey(t, 9)
	want := desiredOf(1)
	holding := func(pair keyPair, change ...func(*corev1.Secret)) *corev1.Secret {
		secret := want.secret(nil, pair.token.Reveal(), pair.key)
		for _, change := range change {
			change(secret)
		}
		return secret
	}
	good := func(change ...func(*corev1.Secret)) *corev1.Secret { return holding(current, change...) }
	owner := func(kind, name string, uid types.UID) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			yes := true
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "mediastack.dev/v1alpha1", Kind: kind, Name: name, UID: uid, Controller: &yes}}
		}
	}
	undelivered, moved, justIssued := newKey(t, 3, pending), newKey(t, 2, elsewhere), newKey(t, 2, fresh)
	interrupted, ends := newKey(t, 2, replacing), newKey(t, 2, ending)
	rotated := func(d *desiredSecret) { d.generation = 2 }
	daily := func(d *desiredSecret) { d.rotateEvery = 24 * hour }
	hourly := func(d *desiredSecret) { d.rotateEvery = hour }
	lowered := func(d *desiredSecret) { d.generation = 0 }
	cases := map[string]struct {
		change   func(*desiredSecret)
		existing *corev1.Secret
		valid    []account.Key
		want     action
		overlap  time.Duration
		event    string
		accept   bool
	}{
		"a Secret with the current key needs no action":              {existing: good(), valid: keysOf(current, older), want: actionNone},
		"an app without a key gets one":                              {want: actionIssue, event: "KeyIssued"},
		"a first key whose Secret was not written is replaced":       {valid: keysOf(undelivered), want: actionIssue, event: "KeyIssued"},
		"a missing Secret revokes the old key at once":               {valid: keysOf(current), want: actionIssue, event: "KeyReplaced"},
		"an interrupted revocation revokes":                          {valid: keysOf(undelivered, current), want: actionIssue, event: "KeyReplaced"},
		"the Secret of another object keeps the overlap":             {valid: keysOf(moved), want: actionIssue, overlap: hour, event: "KeyReplaced"},
		"the Secret of another object keeps it after a crash":        {valid: keysOf(undelivered, moved), want: actionIssue, overlap: hour, event: "KeyReplaced"},
		"an interrupted replacement of an immutable Secret, too":     {valid: keysOf(interrupted), want: actionIssue, overlap: hour, event: "KeyRotated"},
		"a replacement of an immutable Secret is recorded":           {existing: holding(interrupted), valid: keysOf(interrupted), want: actionDeliver},
		"a Secret without its key in the database may be accepted":   {existing: good(), want: actionIssue, event: "KeyIssued", accept: true},
		"a key that the database does not know may be accepted":      {existing: holding(unknown), valid: keysOf(current), want: actionIssue, overlap: hour, event: "KeyReplaced", accept: true},
		"an invalid key is replaced":                                 {existing: good(func(s *corev1.Secret) { s.Data["apiKey"] = []byte("x") }), valid: keysOf(current), want: actionIssue, overlap: hour, event: "KeyReplaced", accept: true},
		"a Secret that is overwritten again waits":                   {existing: holding(unknown), valid: keysOf(justIssued), want: actionWait, accept: true},
		"a pending key does not wait":                                {existing: holding(unknown), valid: keysOf(newKey(t, 2, fresh, pending)), want: actionIssue, overlap: hour, event: "KeyReplaced", accept: true},
		"a written Secret is delivered after a crash":                {existing: holding(undelivered), valid: keysOf(undelivered, current), want: actionDeliver},
		"an interrupted rotation keeps the overlap":                  {existing: good(), valid: keysOf(undelivered, current), want: actionIssue, overlap: hour, event: "KeyRotated"},
		"an older Secret that is applied again is replaced":          {existing: holding(older), valid: keysOf(current, older), want: actionIssue, overlap: hour, event: "KeyReplaced"},
		"a raised generation rotates with overlap":                   {change: rotated, existing: good(), valid: keysOf(current), want: actionIssue, overlap: hour, event: "KeyRotated"},
		"a missing Secret takes precedence over a raised generation": {change: rotated, valid: keysOf(current), want: actionIssue, event: "KeyReplaced"},
		"a lowered generation does nothing":                          {change: lowered, existing: good(), valid: keysOf(current), want: actionNone},
		"a key of its age is rotated":                                {change: hourly, existing: good(), valid: keysOf(current), want: actionIssue, overlap: hour, event: "KeyRotated"},
		"a younger key is not":                                       {change: daily, existing: good(), valid: keysOf(current), want: actionNone},
		"a current key that ends is rotated":                         {existing: holding(ends), valid: keysOf(ends), want: actionIssue, overlap: hour, event: "KeyRotated"},
		"a Secret of an object that was created again is recorded":   {existing: holding(moved), valid: keysOf(moved), want: actionDeliver},
		"a changed URL is corrected":                                 {existing: good(func(s *corev1.Secret) { s.Data["baseURL"] = nil }), valid: keysOf(current), want: actionUpdate},
		"a removed proof is restored":                                {existing: good(func(s *corev1.Secret) { delete(s.Data, "proof") }), valid: keysOf(current), want: actionUpdate},
		"a removed label is restored":                                {existing: good(func(s *corev1.Secret) { s.Labels = nil }), valid: keysOf(current), want: actionUpdate},
		"a removed owner is restored if the label names the account": {existing: good(func(s *corev1.Secret) { s.OwnerReferences = nil }), valid: keysOf(current), want: actionUpdate},
		"a Secret restored from a backup is adopted":                 {existing: good(owner("MediaAccount", "demo", "uid-before")), valid: keysOf(current), want: actionUpdate},
		"additions of others are ignored":                            {existing: good(func(s *corev1.Secret) { s.Data["more"], s.Labels["x"] = nil, "y" }), valid: keysOf(current), want: actionNone},
		"a Secret without owner and label is rejected":               {existing: &corev1.Secret{}, valid: keysOf(current), want: actionReject},
		"a Secret of another account is rejected":                    {existing: good(owner("MediaAccount", "other", "uid-2")), valid: keysOf(current), want: actionReject},
		"a Secret of another kind of object is rejected":             {existing: good(owner("Certificate", "demo", "uid-3")), valid: keysOf(current), want: actionReject},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := desiredOf(1)
			if c.change != nil {
				c.change(&want)
			}
			got := planSecret(want, c.existing, c.valid, databaseTime)
			if got.action != c.want || got.overlap != c.overlap || got.event != c.event || got.accept != c.accept {
				t.Errorf("planSecret returned %+v, want action %d, overlap %s, event %q, accept %t", got, c.want, c.overlap, c.event, c.accept)
			}
			if got.action == actionIssue && got.reason == "" {
				t.Error("an issue has no reason")
			}
			if c.existing == nil {
				return
			}
			if cached := planSecret(want, new(SecretCompactor).Compact(c.existing), c.valid, databaseTime); cached != got {
				t.Errorf("with the Secret of the cache planSecret returned %+v, with that of the API server %+v", cached, got)
			}
		})
	}
}

func keysOf(all ...keyPair) []account.Key {
	keys := make([]account.Key, 0, len(all))
	for _, one := range all {
		keys = append(keys, one.key)
	}
	return keys
}

func TestReissueDelay_BoundsTheKeysOfAnOverlap(t *testing.T) {
	t.Parallel()
	valid := 1
	for age := time.Duration(0); age < 720*time.Hour; valid++ {
		age += reissueDelay(valid)
	}
	if reissueDelay(1) != time.Second || reissueDelay(100) <= 0 || valid > 13 { // the first has ended when the 13th is issued
		t.Errorf("%d keys are valid at a time", valid)
	}
}

func TestRotationDue_IsSpreadOverATenth(t *testing.T) {
	t.Parallel()
	want := desiredOf(1)
	want.rotateEvery = 100 * time.Hour
	early, late := newKey(t, 1), newKey(t, 1)
	early.key.ID[15], late.key.ID[15] = 255, 0
	if age := want.rotationDue(late.key).Sub(*late.key.DeliveredAt); age != 100*time.Hour {
		t.Errorf("the latest rotation is at an age of %s", age)
	}
	if age := want.rotationDue(early.key).Sub(*early.key.DeliveredAt); age < 90*time.Hour || age > 91*time.Hour {
		t.Errorf("the earliest rotation is at an age of %s", age)
	}
}

func TestSecret_FollowsTheTemplate(t *testing.T) {
	t.Parallel()
	pair := newKey(t, 1)
	want := desiredOf(1)
	want.template = v1alpha1.SecretTemplate{
		Labels: map[string]v1alpha1.LabelValue{"team": "a"}, Annotations: map[string]v1alpha1.AnnotationValue{"reloader": "on"},
		Keys: map[string]v1alpha1.SecretEntry{"MEDIA_KEY": "apiKey", "MEDIA_URL": "baseURL"},
	}
	first := want.secret(nil, pair.token.Reveal(), pair.key)
	cached := func(secret *corev1.Secret) *corev1.Secret { return new(SecretCompactor).Compact(secret) }
	if want.differs(cached(first), pair.key) {
		t.Error("in the cache the Secret does not follow the template")
	}
	if first.Labels["team"] != "a" || first.Annotations["reloader"] != "on" || string(first.Data["MEDIA_KEY"]) != pair.token.Reveal() ||
		string(first.Data["MEDIA_URL"]) != want.data["baseURL"] || want.differs(first, pair.key) {
		t.Fatalf("the Secret does not follow the template: %+v", first)
	}
	first.Labels["mine"], first.Annotations["mine"] = "1", "1"
	want.template = v1alpha1.SecretTemplate{Keys: map[string]v1alpha1.SecretEntry{"MEDIA_URL": "mcpURL"}}
	if !want.differs(first, pair.key) || !want.differs(cached(first), pair.key) {
		t.Error("a changed template is no difference")
	}
	second := want.secret(first, pair.token.Reveal(), pair.key)
	if _, left := second.Labels["team"]; left || second.Annotations["reloader"] != "" || second.Data["MEDIA_KEY"] != nil || second.Labels["mine"] != "1" || second.Annotations["mine"] != "1" {
		t.Errorf("what the template no longer has is still there, or more was removed: %+v", second)
	}
	// An annotation that a user wrote removes nothing of the operator.
	second.Annotations[v1alpha1.AnnotationTemplate] = `{"keys":["apiKey","proof"],"labels":["mediastack.dev/account"]}`
	want.template = v1alpha1.SecretTemplate{}
	third := want.secret(second, pair.token.Reveal(), pair.key)
	if want.differs(third, pair.key) || want.differs(cached(third), pair.key) || string(third.Data["apiKey"]) != pair.token.Reveal() || third.Annotations[v1alpha1.AnnotationTemplate] != "" {
		t.Errorf("without a template the Secret is %+v", third)
	}
}

func TestSecretName_IsUniquePerAppAndAccount(t *testing.T) {
	t.Parallel()
	// With dashes, account a-b with app c and account a with app b-c would.
	if a, b := v1alpha1.SecretName("a-b", "c"), v1alpha1.SecretName("a", "b-c"); a == b {
		t.Errorf("both are %s", a)
	}
}
