package mediaaccount

import (
	"sync"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/runtime/account"
)

// undeliveredKeys holds the plain text of keys whose Secret could not be written yet, by object
// and app, so that a retry needs no other key. After a restart the key is replaced.
type undeliveredKeys struct {
	mu   sync.Mutex
	keys map[types.UID]map[uuid.UUID]account.KeySecret
}

func newUndeliveredKeys() *undeliveredKeys {
	return &undeliveredKeys{keys: map[types.UID]map[uuid.UUID]account.KeySecret{}}
}

func (u *undeliveredKeys) find(object types.UID, app uuid.UUID) (account.KeySecret, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	token, known := u.keys[object][app]
	return token, known
}

func (u *undeliveredKeys) add(object types.UID, app uuid.UUID, token account.KeySecret) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys[object] == nil {
		u.keys[object] = map[uuid.UUID]account.KeySecret{}
	}
	u.keys[object][app] = token
}

func (u *undeliveredKeys) remove(object types.UID, app uuid.UUID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if delete(u.keys[object], app); len(u.keys[object]) == 0 {
		delete(u.keys, object)
	}
}

// forget removes the keys of an object that is gone.
func (u *undeliveredKeys) forget(object types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.keys, object)
}
