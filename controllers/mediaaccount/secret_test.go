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

// held is a key with its token, as a Secret and PostgreSQL share it.
type held struct {
	token account.Token
	key   account.Key
}

func newKey(t *testing.T, generation int64) held {
	t.Helper()
	token, err := account.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	return held{token: token, key: account.Key{ID: uuid.New(), Hash: token.Hash(), Generation: generation}}
}

func wantedOf(generation int64) wanted {
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", UID: "uid-1"}}
	return wanted{
		object: object, app: account.App{Name: "default"}, name: "demo.default.media",
		generation: generation, overlap: time.Hour,
		data: map[string]string{v1alpha1.SecretBaseURL: "https://media.example.org", v1alpha1.SecretApp: "default"},
	}
}

func TestDecideChoosesWhatToDoAboutAKey(t *testing.T) {
	t.Parallel()
	current, older, unknown := newKey(t, 1), newKey(t, 1), newKey(t, 1)
	want := wantedOf(1)
	good := func(change ...func(*corev1.Secret)) *corev1.Secret {
		secret := want.secret(nil, current.token.Reveal())
		for _, change := range change {
			change(secret)
		}
		return secret
	}
	carrying := func(key held) *corev1.Secret { return want.secret(nil, key.token.Reveal()) }
	owner := func(kind, name string, uid types.UID) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			yes := true
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "mediastack.dev/v1alpha1", Kind: kind, Name: name, UID: uid, Controller: &yes}}
		}
	}
	cases := map[string]struct {
		generation int64
		have       *corev1.Secret
		keys       []account.Key
		want       action
		overlap    time.Duration
	}{
		"a Secret with the current key is kept":                   {have: good(), keys: keysOf(current), want: keep},
		"an app without a key gets one":                           {want: issue},
		"a missing Secret ends the old key at once":               {keys: keysOf(current), want: issue},
		"a Secret without its key in the database gets a new one": {have: good(), want: issue},
		"a key that the database does not know is replaced":       {have: carrying(unknown), keys: keysOf(current), want: issue},
		"text that is no key is replaced":                         {have: good(func(s *corev1.Secret) { s.Data["apiKey"] = []byte("x") }), keys: keysOf(current), want: issue},
		"an interrupted rotation keeps the overlap":               {have: carrying(older), keys: keysOf(current, older), want: issue, overlap: time.Hour},
		"a raised generation rotates with overlap":                {generation: 2, have: good(), keys: keysOf(current), want: issue, overlap: time.Hour},
		"a missing Secret outranks a raised generation":           {generation: 2, keys: keysOf(current), want: issue},
		"a foreign URL is mended":                                 {have: good(func(s *corev1.Secret) { s.Data["baseURL"] = nil }), keys: keysOf(current), want: mend},
		"a lost label is mended":                                  {have: good(func(s *corev1.Secret) { s.Labels = nil }), keys: keysOf(current), want: mend},
		"a lost owner is mended where the label tells":            {have: good(func(s *corev1.Secret) { s.OwnerReferences = nil }), keys: keysOf(current), want: mend},
		"a Secret from a backup is taken over":                    {have: good(owner("MediaAccount", "demo", "uid-before")), keys: keysOf(current), want: mend},
		"what others added is theirs":                             {have: good(func(s *corev1.Secret) { s.Data["more"], s.Labels["x"] = nil, "y" }), keys: keysOf(current), want: keep},
		"a Secret of nobody is refused":                           {have: &corev1.Secret{}, keys: keysOf(current), want: refuse},
		"a Secret of another account is refused":                  {have: good(owner("MediaAccount", "other", "uid-2")), keys: keysOf(current), want: refuse},
		"a Secret of another kind is refused":                     {have: good(owner("Certificate", "demo", "uid-3")), keys: keysOf(current), want: refuse},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(wantedOf(max(c.generation, 1)), c.have, c.keys)
			if got.action != c.want || got.overlap != c.overlap {
				t.Errorf("decide gives action %d with overlap %s, want %d with %s", got.action, got.overlap, c.want, c.overlap)
			}
			if got.action == issue && (got.event == "" || got.why == "") {
				t.Error("an issue has no event")
			}
		})
	}
}

func keysOf(all ...held) []account.Key {
	keys := make([]account.Key, 0, len(all))
	for _, one := range all {
		keys = append(keys, one.key)
	}
	return keys
}

func TestShortenLeavesWhatIsStillValid(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	soon, late := now.Add(time.Minute), now.Add(time.Hour)
	keys := []account.Key{{}, {ExpiresAt: &soon}, {ExpiresAt: &late}}
	if left := shorten(keys, now, 0); len(left) != 0 {
		t.Errorf("without overlap %d keys are left", len(left))
	}
	left := shorten(keys, now, 10*time.Minute)
	if len(left) != 3 || !left[0].ExpiresAt.Equal(now.Add(10*time.Minute)) || !left[1].ExpiresAt.Equal(soon) || !left[2].ExpiresAt.Equal(now.Add(10*time.Minute)) {
		t.Errorf("the ends are %v", left)
	}
	if keys[0].ExpiresAt != nil {
		t.Error("the keys that were given changed")
	}
}

func TestNoTwoAppsShareASecret(t *testing.T) {
	t.Parallel()
	// With dashes, account a-b with app c and account a with app b-c would.
	if a, b := v1alpha1.SecretName("a-b", "c"), v1alpha1.SecretName("a", "b-c"); a == b {
		t.Errorf("both are %s", a)
	}
}
