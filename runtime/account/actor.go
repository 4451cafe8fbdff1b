package account

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

// ActorKind is the kind of an actor.
type ActorKind string

// The kinds of actors.
const (
	ActorKey        ActorKind = "key"        // a program with an API key
	ActorLogin      ActorKind = "login"      // an application that a user connected; ID is that of the authorization
	ActorPage       ActorKind = "page"       // an owner on a page
	ActorCapability ActorKind = "capability" // an upload signature; ID is that of the key or the authorization that created it
	ActorPurge      ActorKind = "purge"      // the end of a draft, or of a deleted item, by its time or to make room
	ActorService    ActorKind = "service"    // the service itself, as with derivatives that are made after the upload
	ActorOperator   ActorKind = "operator"   // the operator, for a custom resource
)

// Actor is who makes a change. It names nobody's secret.
type Actor struct {
	Kind ActorKind `json:"kind"`
	ID   string    `json:"id,omitempty"`
	// Name is that of the application of a login.
	Name string `json:"name,omitempty"`
	// Email is the address of a person, as Account.AddressOf returns it.
	Email string `json:"email,omitempty"`
	// ApprovedBy is the address of the owner who has allowed the change, as Account.AddressOf returns it; empty = nobody was asked.
	ApprovedBy string `json:"approvedBy,omitempty"`
	// AskedBy is who has asked for what the actor has decided; nil = the event is no decision.
	AskedBy *Actor `json:"askedBy,omitempty"`
}

// ActorOfKey returns the actor that has a key.
func ActorOfKey(id uuid.UUID) Actor { return Actor{Kind: ActorKey, ID: id.String()} }

// Text returns the actor as JSON.
func (a Actor) Text() string {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings are always encoded
	}
	return string(text)
}

// ParseActor reads what Text returns. Another text is an actor without a kind.
func ParseActor(text string) (a Actor) {
	if json.Unmarshal([]byte(text), &a) != nil {
		return Actor{}
	}
	return a
}

// AddressOf returns the e-mail address of a person as the events of the account have it.
func (a Account) AddressOf(email string) string {
	if a.FullAddresses {
		return email
	}
	return MaskEmail(email)
}

// MaskEmail returns an e-mail address of which the local part has its first character only.
func MaskEmail(email string) string {
	local, domain, found := strings.Cut(email, "@")
	if !found || local == "" {
		return ""
	}
	first := []rune(local)[0]
	return string(first) + "***@" + domain
}
