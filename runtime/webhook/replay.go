package webhook

import (
	"fmt"
	"strings"
)

// maxIDsNamed is how many ids a report names of those that are not sent. All of them would not fit in a status.
const maxIDsNamed = 5

// ReplayReport says which of the events that an admin asked for by their ids are not sent again, and how many are; empty = all are. Ids are in
// the form of journal.Event.EventID.
func ReplayReport(asked []string, found []Found, by Selection) string {
	const unknown, unselected, sent = 1, 2, 3
	became := map[string]int{}
	for _, id := range asked {
		became[id] = unknown
	}
	for _, event := range found {
		became[event.EventID()] = unselected
		if by.selects(event) {
			became[event.EventID()] = sent
		}
	}
	var ids [sent + 1][]string
	for _, id := range asked {
		ids[became[id]] = append(ids[became[id]], id)
		delete(became, id) // it may be named twice
	}
	if len(ids[unknown])+len(ids[unselected]) == 0 {
		return ""
	}
	report := fmt.Sprintf("%d of %d events are sent again", len(ids[sent]), len(ids[unknown])+len(ids[unselected])+len(ids[sent]))
	if len(ids[unknown]) > 0 {
		report += "; the journal does not have " + named(ids[unknown])
	}
	if len(ids[unselected]) > 0 {
		report += "; the webhook does not select " + named(ids[unselected])
	}
	return report
}

// named returns the first ids, and how many others there are.
func named(ids []string) string {
	if others := len(ids) - maxIDsNamed; others > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:maxIDsNamed], ", "), others)
	}
	return strings.Join(ids, ", ")
}
