package publicnet_test

import (
	"net/netip"
	"testing"

	"mediastack.dev/runtime/internal/publicnet"
)

func TestContains_NoAddressOfTheSpecialPurposeRegistries(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.9.1", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "fe80::1", "fe80::1%eth0", "2606:4700::1111%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "100::1", "5f00::1", "2001:db8::1", "3fff::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", // mapped
		"::127.0.0.1", "::8.8.8.8", // compatible
		"64:ff9b::127.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::10.0.0.1", // NAT64
		"2002:7f00:1::1", "2002:808:808::1", // 6to4
		"2001::1", "2001:0:7f00:1::", "2001:2::1", "2001:10::1", "2001:20::1", // Teredo, benchmarks, ORCHID
		"2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1", "fe80::5efe:10.0.0.1", // ISATAP
	} {
		if publicnet.Contains(netip.MustParseAddr(address)) {
			t.Errorf("%s is public", address)
		}
	}
	if publicnet.Contains(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestContains_PublicAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "223.255.255.255", "::ffff:8.8.8.8", "2606:4700::1111", "2a00::1", "2001:4860:4860::8888"} {
		if !publicnet.Contains(netip.MustParseAddr(address)) {
			t.Errorf("%s is not public", address)
		}
	}
}
