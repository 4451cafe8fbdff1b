package webhook

import (
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/work"
)

func TestOffer_SharesTheSlotsOfAnAccount(t *testing.T) {
	t.Parallel()
	hook := func(n byte) uuid.UUID { return uuid.UUID{1, n} }
	tenant, other := uuid.UUID{2}, uuid.UUID{3}
	many := map[uuid.UUID]uuid.UUID{}
	for n := range byte(30) {
		many[hook(n)] = tenant
	}
	many[hook(200)] = other
	for name, c := range map[string]struct {
		slow    map[uuid.UUID]uuid.UUID
		running map[uuid.UUID]int
		most    int // of one webhook
		tenant  int // what is offered of the tenant's webhooks
		other   int
	}{
		"one webhook has the whole share":           {map[uuid.UUID]uuid.UUID{hook(1): tenant}, nil, 8, 8, 0},
		"two webhooks have halves of it":            {map[uuid.UUID]uuid.UUID{hook(1): tenant, hook(2): tenant}, nil, 4, 8, 0},
		"what runs counts":                          {map[uuid.UUID]uuid.UUID{hook(1): tenant, hook(2): tenant}, map[uuid.UUID]int{hook(1): 6, hook(9): 50}, 1, 2, 0},
		"a full account is not offered":             {map[uuid.UUID]uuid.UUID{hook(1): tenant, hook(2): other}, map[uuid.UUID]int{hook(1): 8}, 8, 0, 8},
		"an account with many leaves others theirs": {many, nil, 8, 8, 8},
		"more that moved there than the share":      {many, map[uuid.UUID]int{hook(7): 31}, 8, 0, 8},
	} {
		a := newApart()
		offer := a.offer(c.slow, work.Selecting{Slow: true, Slots: 32, PerAccount: 8, Running: c.running})
		got, most := map[uuid.UUID]int{}, 0
		for id, n := range offer {
			got[c.slow[id]] += n
			most = max(most, n)
		}
		if got[tenant] != c.tenant || got[other] != c.other || most != c.most {
			t.Errorf("%s: %v, %d of one webhook", name, got, most)
		}
	}
}

// Webhooks of which nothing is due are offered, too, and must not keep others from their turn.
func TestOffer_WebhooksTakeTurns(t *testing.T) {
	t.Parallel()
	a := newApart()
	slow := map[uuid.UUID]uuid.UUID{}
	for n := range byte(30) {
		slow[uuid.UUID{1, n}] = uuid.UUID{2}
	}
	offered := map[uuid.UUID]bool{}
	for range 4 { // 8 of 30 each time
		for id := range a.offer(slow, work.Selecting{Slow: true, Slots: 32, PerAccount: 8}) {
			offered[id] = true
		}
	}
	if len(offered) != len(slow) {
		t.Errorf("%d of %d were offered", len(offered), len(slow))
	}
}

func TestOffer_HasRoomInFewSlots(t *testing.T) {
	t.Parallel()
	for slots := 1; slots <= 9; slots++ {
		a := newApart()
		offer := a.offer(map[uuid.UUID]uuid.UUID{{1}: {2}, {3}: {2}}, work.Selecting{Slow: true, Slots: slots, PerAccount: 8})
		if total := len(offer); total < 1 {
			t.Errorf("of %d slots, %v is offered", slots, offer)
		}
	}
}
