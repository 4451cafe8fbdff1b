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

// keyPair is a key with its token, as a Secret and PostgreSQL share it.
type keyPair struct {
	token account.KeySecret
	key   account.Key
}

func newKey(t *testing.T, generation int64) keyPair {
	t.Helper()
	token, err := account.NewKeySecret()
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{token: token, key: account.Key{ID: uuid.New(), Hash: token.Hash(), Generation: generation}}
}

func desiredOf(generation int64) desiredSecret {
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", UID: "uid-1"}}
	return desiredSecret{
		object: object, app: account.App{Name: "default"}, name: "demo.default.media",
		generation: generation, overlap: time.Hour,
		data: map[string]string{v1alpha1.SecretBaseURL: "https://media.example.org", v1alpha1.SecretApp: "default"},
	}
}

func TestPlanSecret_ChoosesTheAction(t *testing.T) {
	t.Parallel()
	current, older, unknown := newKey(t, 1), newKey(t, 1), newKey(t, 1)
	want := desiredOf(1)
	good := func(change ...func(*corev1.Secret)) *corev1.Secret {
		secret := want.secret(nil, current.token.Reveal())
		for _, change := range change {
			change(secret)
		}
		return secret
	}
	carrying := func(key keyPair) *corev1.Secret { return want.secret(nil, key.token.Reveal()) }
	owner := func(kind, name string, uid types.UID) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			yes := true
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "mediastack.dev/v1alpha1", Kind: kind, Name: name, UID: uid, Controller: &yes}}
		}
	}
	cases := map[string]struct {
		generation int64
		existing   *corev1.Secret
		keys       []account.Key
		want       action
		overlap    time.Duration
	}{
		"a Secret with the current key needs no action":              {existing: good(), keys: keysOf(current), want: actionNone},
		"an app without a key gets one":                              {want: actionIssueKey},
		"a missing Secret revokes the old key at once":               {keys: keysOf(current), want: actionIssueKey},
		"a Secret without its key in the database gets a new one":    {existing: good(), want: actionIssueKey},
		"a key that the database does not know is replaced":          {existing: carrying(unknown), keys: keysOf(current), want: actionIssueKey},
		"an invalid key is replaced":                                 {existing: good(func(s *corev1.Secret) { s.Data["apiKey"] = []byte("x") }), keys: keysOf(current), want: actionIssueKey},
		"an interrupted rotation keeps the overlap":                  {existing: carrying(older), keys: keysOf(current, older), want: actionIssueKey, overlap: time.Hour},
		"a raised generation rotates with overlap":                   {generation: 2, existing: good(), keys: keysOf(current), want: actionIssueKey, overlap: time.Hour},
		"a missing Secret takes precedence over a raised generation": {generation: 2, keys: keysOf(current), want: actionIssueKey},
		"a changed URL is corrected":                                 {existing: good(func(s *corev1.Secret) { s.Data["baseURL"] = nil }), keys: keysOf(current), want: actionUpdate},
		"a removed label is restored":                                {existing: good(func(s *corev1.Secret) { s.Labels = nil }), keys: keysOf(current), want: actionUpdate},
		"a removed owner is restored if the label names the account": {existing: good(func(s *corev1.Secret) { s.OwnerReferences = nil }), keys: keysOf(current), want: actionUpdate},
		"a Secret restored from a backup is adopted":                 {existing: good(owner("MediaAccount", "demo", "uid-before")), keys: keysOf(current), want: actionUpdate},
		"additions of others are ignored":                            {existing: good(func(s *corev1.Secret) { s.Data["more"], s.Labels["x"] = nil, "y" }), keys: keysOf(current), want: actionNone},
		"a Secret without owner and label is rejected":               {existing: &corev1.Secret{}, keys: keysOf(current), want: actionReject},
		"a Secret of another account is rejected":                    {existing: good(owner("MediaAccount", "other", "uid-2")), keys: keysOf(current), want: actionReject},
		"a Secret of another kind of object is rejected":             {existing: good(owner("Certificate", "demo", "uid-3")), keys: keysOf(current), want: actionReject},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := planSecret(desiredOf(max(c.generation, 1)), c.existing, c.keys)
			if got.action != c.want || got.overlap != c.overlap {
				t.Errorf("planSecret chose action %d with overlap %s, want %d with %s", got.action, got.overlap, c.want, c.overlap)
			}
			if got.action == actionIssueKey && (got.event == "" || got.reason == "") {
				t.Error("an issue has no event")
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

func TestLimitToOverlap_KeepsValidKeys(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	soon, late := now.Add(time.Minute), now.Add(time.Hour)
	keys := []account.Key{{}, {ExpiresAt: &soon}, {ExpiresAt: &late}}
	if left := limitToOverlap(keys, now, 0); len(left) != 0 {
		t.Errorf("without overlap %d keys are left", len(left))
	}
	left := limitToOverlap(keys, now, 10*time.Minute)
	if len(left) != 3 || !left[0].ExpiresAt.Equal(now.Add(10*time.Minute)) || !left[1].ExpiresAt.Equal(soon) || !left[2].ExpiresAt.Equal(now.Add(10*time.Minute)) {
		t.Errorf("the ends are %v", left)
	}
	if keys[0].ExpiresAt != nil {
		t.Error("the keys that were given changed")
	}
}

func TestSecretName_IsUniquePerAppAndAccount(t *testing.T) {
	t.Parallel()
	// With dashes, account a-b with app c and account a with app b-c would.
	if a, b := v1alpha1.SecretName("a-b", "c"), v1alpha1.SecretName("a", "b-c"); a == b {
		t.Errorf("both are %s", a)
	}
}
