package mediaaccount

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
)

// Whole addresses are recorded only if the object says so.
func TestAccountSpec_HasTheAddressesOfTheJournal(t *testing.T) {
	t.Parallel()
	for addresses, want := range map[v1alpha1.AddressesOfEvents]bool{"": false, v1alpha1.AddressesMasked: false, v1alpha1.AddressesFull: true} {
		object := &v1alpha1.MediaAccount{Spec: v1alpha1.MediaAccountSpec{Journal: &v1alpha1.JournalSpec{Addresses: addresses}}}
		if got := toAccountSpec(object, false).FullAddresses; got != want {
			t.Errorf("%q: %v", addresses, got)
		}
	}
}

// An object that was read without the defaults of the schema has the same journal as one with them.
func TestAccountSpec_HasTheRetentionOfTheJournal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		journal  *v1alpha1.JournalSpec
		webhooks bool
		want     time.Duration
	}{
		"no journal":                  {nil, false, 0},
		"a journal without retention": {&v1alpha1.JournalSpec{}, false, 168 * time.Hour},
		"a journal with retention":    {&v1alpha1.JournalSpec{Retention: &metav1.Duration{Duration: 24 * time.Hour}}, false, 24 * time.Hour},
		"a webhook without a journal": {nil, true, 96 * time.Hour},
		"a webhook and a journal":     {&v1alpha1.JournalSpec{Retention: &metav1.Duration{Duration: 24 * time.Hour}}, true, 24 * time.Hour},
	} {
		object := &v1alpha1.MediaAccount{Spec: v1alpha1.MediaAccountSpec{Journal: c.journal}}
		if got := toAccountSpec(object, c.webhooks).Journal; got != c.want {
			t.Errorf("%s: the account has a retention of %s, want %s", name, got, c.want)
		}
	}
}
