package installation

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/installation"
)

var (
	ours, others = uuid.MustParse("0198c0de-0000-7000-8000-000000000001"), uuid.MustParse("0198c0de-0000-7000-8000-000000000002")
)

func row(id uuid.UUID, cluster string, epoch int64, hold string) installation.State {
	return installation.State{Identity: installation.Identity{ID: id, Epoch: epoch}, ClusterUID: cluster, HoldReason: hold}
}

func TestDecide_ComparesBothSides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		record *Record
		row    installation.State
		want   action
		says   []string // in the text
	}{
		"both are new":              {nil, row(ours, "", 1, ""), bindRow, nil},
		"both agree":                {&Record{ours, "here", 3}, row(ours, "here", 3, ""), proceed, nil},
		"the ConfigMap was deleted": {nil, row(ours, "here", 3, ""), writeRecord, nil},
		"a take-over or a resume raised the epoch": {&Record{ours, "here", 3}, row(ours, "here", 4, ""), writeRecord, nil},
		"the ConfigMap names the cluster before":   {&Record{ours, "there", 3}, row(ours, "here", 4, ""), writeRecord, nil},
		"a resume of an unbound backup":            {&Record{ours, "here", 1}, row(ours, "", 2, ""), bindRow, nil},

		"another cluster is bound":             {nil, row(ours, "there", 3, ""), stop, []string{"there", "here", ours.String(), "take-over"}},
		"another cluster took over":            {&Record{ours, "here", 3}, row(ours, "there", 4, ""), stop, []string{"there", "here", "take-over"}},
		"another installation":                 {&Record{ours, "here", 3}, row(others, "here", 3, ""), stop, []string{ours.String(), others.String(), "SERVICE_DATABASE_URL"}},
		"an empty database":                    {&Record{ours, "here", 3}, row(others, "", 1, ""), stop, []string{ours.String(), others.String(), "SERVICE_DATABASE_URL"}},
		"a copied ConfigMap, and no cluster":   {&Record{ours, "there", 3}, row(ours, "", 3, ""), stop, []string{"there", "here", "take-over"}},
		"a database of before the ConfigMap":   {&Record{ours, "here", 4}, row(ours, "here", 3, ""), hold, []string{"epoch is 3", "epoch 4"}},
		"the same, on hold for another reason": {&Record{ours, "here", 4}, row(ours, "here", 3, "a copy"), hold, nil}, // the epoch is raised
		"a database of before the binding":     {&Record{ours, "here", 1}, row(ours, "", 1, ""), hold, nil},
		"on hold":                              {&Record{ours, "here", 3}, row(ours, "here", 3, "a copy"), stop, []string{"a copy", "resume-after-restore"}},
		"on hold, without a ConfigMap":         {nil, row(ours, "here", 3, "a copy"), stop, []string{"a copy"}},
		"on hold, of before the binding":       {&Record{ours, "here", 1}, row(ours, "", 1, "a copy"), stop, []string{"a copy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, text := decide("here", c.record, c.row)
			if got != c.want || (text != "") != (c.want == hold || c.want == stop) {
				t.Errorf("got %d, %q; want %d", got, text, c.want)
			}
			for _, part := range c.says {
				if !strings.Contains(text, part) {
					t.Errorf("the text lacks %q: %s", part, text)
				}
			}
			if needs := needsTakeover("here", c.record, c.row); needs != strings.Contains(text, takeOverCommand) {
				t.Errorf("needsTakeover is %t, and the text says: %s", needs, text)
			}
		})
	}
}

// From every state, what the operator writes leads to a state at which it stops or proceeds.
func TestDecide_Terminates(t *testing.T) {
	t.Parallel()
	clusters := []string{"", "here", "there"}
	for _, rowCluster := range clusters {
		for _, holdReason := range []string{"", "a copy"} {
			for epoch := int64(1); epoch < 4; epoch++ {
				for _, id := range []uuid.UUID{ours, others} {
					records := []*Record{nil, {ours, "here", 2}, {ours, "there", 2}}
					for _, record := range records {
						settles(t, record, row(id, rowCluster, epoch, holdReason))
					}
				}
			}
		}
	}
}

// settles applies the decisions as the Verifier does.
func settles(t *testing.T, record *Record, state installation.State) {
	t.Helper()
	from, fromRecord := state, record
	for range compareTries {
		next, text := decide("here", record, state)
		switch next {
		case proceed:
			if state.ClusterUID != "here" || state.HoldReason != "" || *record != recordOf(state) {
				t.Errorf("from %+v and %+v: proceeds at %+v and %+v", from, fromRecord, state, record)
			}
			return
		case stop:
			return
		case bindRow:
			state.ClusterUID = "here"
		case writeRecord:
			written := recordOf(state)
			record = &written
		case hold:
			state.Epoch, state.HoldReason = max(state.Epoch, record.Epoch), text
		}
	}
	t.Errorf("from %+v and %+v: no end after %d decisions", from, fromRecord, compareTries)
}
