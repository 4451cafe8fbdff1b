package publicnet_test

import (
	"errors"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/publicnet"
)

// policy returns a policy for networks that spaces separate.
func policy(t *testing.T, public bool, allow, deny string) publicnet.Policy {
	t.Helper()
	p := publicnet.Policy{Settings: "SERVICE_TEST", Public: public, Ports: []int{443}}
	var errs [2]error
	p.Allow, errs[0] = publicnet.ParseNetworks("", strings.Fields(allow))
	p.Deny, errs[1] = publicnet.ParseNetworks("", strings.Fields(deny))
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return p
}

// An empty reason is for an address that is allowed.
func TestControl_JudgesEachAddress(t *testing.T) {
	t.Parallel()
	public := policy(t, true, "10.1.0.0/16 fd00:1::/32", "10.1.7.0/24 8.8.4.0/24")
	inside := policy(t, false, "10.1.0.0/16 fd00:1::/32", "10.1.7.0/24")
	anyPort := public
	anyPort.AnyPort = anyPort.Allow
	const ports, networks, denied = "SERVICE_TEST_PORTS", "SERVICE_TEST_ALLOW_NETWORKS", "SERVICE_TEST_DENY_NETWORKS"
	for _, c := range []struct {
		policy  publicnet.Policy
		address string
		reason  string
	}{
		{public, "8.8.8.8:443", ""},
		{public, "[2606:4700::1111]:443", ""},
		{public, "[::ffff:8.8.8.8]:443", ""},
		{public, "8.8.8.8:80", ports},
		{public, "8.8.4.4:443", denied},
		{public, "[::ffff:8.8.4.4]:443", denied},
		{public, "10.1.0.1:443", ""},
		{public, "[::ffff:10.1.0.1]:443", ""},
		{public, "[fd00:1::1]:443", ""},
		{public, "[fd00:1::1%eth0]:443", networks},
		{public, "10.1.0.1:80", ports},
		{public, "10.1.7.1:443", denied},
		{public, "10.2.0.1:443", networks},
		{public, "[::ffff:10.2.0.1]:443", networks},
		{public, "169.254.169.254:443", networks},
		{public, "name:443", "not an address"},
		{inside, "10.1.0.1:443", ""},
		{inside, "8.8.8.8:443", networks},
		{inside, "[2606:4700::1111]:443", networks},
		{inside, "10.1.7.1:443", denied},
		{anyPort, "10.1.0.1:8080", ""},
		{anyPort, "[::ffff:10.1.0.1]:8080", ""},
		{anyPort, "8.8.8.8:8080", ports},
		{anyPort, "10.1.7.1:8080", denied},
	} {
		err := c.policy.Control("tcp", c.address, nil)
		var not *publicnet.NotAllowedError
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("%s: %v", c.address, err)
		case c.reason != "" && (!errors.As(err, &not) || !strings.Contains(not.Why, c.reason)):
			t.Errorf("%s: %v, want %s", c.address, err, c.reason)
		}
	}
}

func TestParseNetworks_TakesNetworksInTheirOwnForm(t *testing.T) {
	t.Parallel()
	networks, err := publicnet.ParseNetworks("SERVICE_TEST", []string{"10.1.2.3/16", " fd00:1::/32 "})
	if err != nil || len(networks) != 2 || networks[0].String() != "10.1.0.0/16" || networks[1].String() != "fd00:1::/32" {
		t.Errorf("%v, %v", networks, err)
	}
	for _, text := range []string{"", "10.1.0.0", "10.1.0.0/33", "::ffff:10.1.0.0/112", "all"} {
		if _, err := publicnet.ParseNetworks("SERVICE_TEST", []string{"10.0.0.0/8", text}); err == nil || !strings.Contains(err.Error(), "SERVICE_TEST") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCheckPorts_NamesTheSetting(t *testing.T) {
	t.Parallel()
	if err := publicnet.CheckPorts("SERVICE_TEST", []int{1, 65535}); err != nil {
		t.Error(err)
	}
	for _, ports := range [][]int{nil, {0}, {443, 65536}, {-1}} {
		if err := publicnet.CheckPorts("SERVICE_TEST", ports); err == nil || !strings.Contains(err.Error(), "SERVICE_TEST") {
			t.Errorf("%v: %v", ports, err)
		}
	}
}
