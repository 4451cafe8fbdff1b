package account

import "time"

// Whose deletes can be undone.
const (
	// UndoAgents: those of assistants and connected applications, which are all requests to the MCP
	// endpoint, and requests with a credential from a login.
	UndoAgents = "Agents"
	// UndoEveryone: those with an API key over REST, too.
	UndoEveryone = "Everyone"
)

// Undo says which deletes can be undone. The zero value: none.
type Undo struct {
	// Window is how long a deleted item can be restored.
	Window time.Duration
	For    string
}

// Covers reports whether a delete can be undone. agent is set for one of an assistant or a connected
// application.
func (u Undo) Covers(agent bool) bool { return u.Window > 0 && (agent || u.For == UndoEveryone) }
