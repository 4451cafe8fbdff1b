package mediaaccount

import (
	"testing"
	"time"

	"mediastack.dev/api/v1alpha1"
)

func TestNamespaces_AReadHoldsForTheObjectsThatWereKnown(t *testing.T) {
	t.Parallel()
	now := noon
	n := newNamespaces(func() time.Time { return now })
	object := func(namespace, version string) *v1alpha1.MediaAccount {
		found := &v1alpha1.MediaAccount{}
		found.Namespace, found.ResourceVersion = namespace, version
		return found
	}
	wants := func(what string, of *v1alpha1.MediaAccount, want bool) {
		t.Helper()
		if uid, known := n.Find(of); known != want || known && uid != "uid" {
			t.Errorf("%s: %q, %t", what, uid, known)
		}
	}
	n.Saw(object("team", "9"))
	n.Saw(object("team", "10"))
	n.Saw(object("team", "8"))
	wants("before a read", object("team", "8"), false)
	learn := n.Begin("team")
	n.Saw(object("team", "11")) // while the namespace is read
	learn("uid")
	wants("an older object", object("team", "9"), true)
	wants("the newest object", object("team", "10"), true)
	wants("an object that was created during the read", object("team", "11"), false)
	wants("another namespace", object("other", "9"), false)
	now = now.Add(namespaceReadFor)
	wants("later", object("team", "9"), false)
	if n.Begin("other")("uid"); len(n.reads) != 1 {
		t.Errorf("%d reads are remembered", len(n.reads))
	}
}
