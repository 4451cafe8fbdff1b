package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mediastack.dev/hack/setup"
)

// cephUser is the user of every gateway.
const cephUser = "mediastack"

// Ceph is a Ceph cluster on loopback: a monitor and one OSD that keeps everything in memory. It has
// no manager, which only reports. Gateways serve its objects by S3.
type Ceph struct {
	group     *Group
	programs  setup.CephPrograms
	dir       string
	secretKey string
	accessKey string
}

// cephConfig is the configuration of a cluster. Changes are decided without the usual second of
// waiting, and removed objects are collected at once: memory is short.
const cephConfig = `[global]
fsid = %[1]s
mon host = [v2:%[2]s,v1:%[3]s]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
keyring = %[4]s/keyring
run dir = %[4]s
admin socket = %[4]s/$name.asok
pid file =
log file =
log to stderr = true
err to stderr = true
mon data = %[4]s/mon
mon cluster log file = %[4]s/cluster.log
mon data avail crit = 1
mon allow pool size one = true
paxos propose interval = 0.02
paxos min wait = 0.01
osd data = %[4]s/osd
osd objectstore = memstore
memstore device bytes = 17179869184
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
rgw data = %[4]s/rgw
rgw gc obj min wait = 1
rgw gc processor period = 2
rgw gc processor max time = 2
`

// StartCeph starts a cluster in dir, which is made when absent.
func (g *Group) StartCeph(ctx context.Context, dir string) (*Ceph, error) {
	programs, err := setup.FindCeph()
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{dir, filepath.Join(dir, "osd"), filepath.Join(dir, "rgw")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory of Ceph: %w", err)
		}
	}
	c := &Ceph{group: g, programs: programs, dir: dir, accessKey: RandomSecret(10), secretKey: RandomSecret(20)}
	for _, step := range []func(context.Context) error{c.configure, c.startMonitor, c.startOSD, c.addUser} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("Ceph: %w", err)
		}
	}
	return c, nil
}

// configure writes the configuration, the keys and the first map of monitors.
func (c *Ceph) configure(ctx context.Context) error {
	var addresses [2]string
	for i := range addresses {
		port, err := FreePort()
		if err != nil {
			return err
		}
		addresses[i] = loopback(port)
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	fsid := strings.TrimSpace(string(id))
	config := fmt.Sprintf(cephConfig, fsid, addresses[0], addresses[1], c.dir)
	if err := os.WriteFile(c.path("ceph.conf"), []byte(config), 0o600); err != nil {
		return err
	}
	keyFile := c.path("keyring")
	for _, args := range [][]string{
		{"--create-keyring", keyFile, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"},
		{keyFile, "--gen-key", "-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd", "allow *"},
		{keyFile, "--gen-key", "-n", "osd.0", "--cap", "mon", "allow profile osd", "--cap", "osd", "allow *"},
	} {
		if err := c.run(ctx, c.programs.AuthTool, args...); err != nil {
			return err
		}
	}
	return c.run(ctx, c.programs.MonMapTool, "--create", "--fsid", fsid, "--addv", "a", fmt.Sprintf("[v2:%s,v1:%s]", addresses[0], addresses[1]), c.path("monmap"))
}

func (c *Ceph) startMonitor(ctx context.Context) error {
	if err := c.run(ctx, c.programs.Monitor, "--mkfs", "-i", "a", "--monmap", c.path("monmap"), "--keyring", c.path("keyring")); err != nil {
		return err
	}
	_, err := c.group.Start(ctx, c.spec("the Ceph monitor", c.programs.Monitor, "-f", "-i", "a"))
	return err
}

func (c *Ceph) startOSD(ctx context.Context) error {
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	osd := strings.TrimSpace(string(id))
	// It waits for the monitor.
	if err := c.run(ctx, c.programs.Admin, "--connect-timeout", "60", "osd", "new", osd, "0"); err != nil {
		return err
	}
	if err := c.run(ctx, c.programs.OSD, "-i", "0", "--mkfs", "--osd-uuid", osd); err != nil {
		return err
	}
	_, err = c.group.Start(ctx, c.spec("the Ceph OSD", c.programs.OSD, "-f", "-i", "0"))
	return err
}

// addUser waits for the OSD, makes the pools and adds the gateways' user, who may have any number of
// buckets: the default is 1,000.
func (c *Ceph) addUser(ctx context.Context) error {
	return c.run(ctx, c.programs.GatewayAdmin, "user", "create", "--uid", cephUser, "--display-name", cephUser,
		"--access-key", c.accessKey, "--secret-key", c.secretKey, "--max-buckets", "0")
}

// StartGateway starts a Ceph RGW on a free port. All gateways show the same buckets.
func (c *Ceph) StartGateway(ctx context.Context, logFile string) (*S3, error) {
	port, err := FreePort()
	if err != nil {
		return nil, fmt.Errorf("Ceph RGW: %w", err)
	}
	endpoint := "http://" + loopback(port)
	spec := c.spec("Ceph RGW", c.programs.Gateway, "-f", "-n", "client.admin", "--keyring", c.path("keyring"), "--rgw-frontends", "beast endpoint="+loopback(port),
		"--admin-socket", "", "--debug-rgw", "0")
	spec.LogFile, spec.Ready = logFile, Answers(endpoint+"/")
	access := S3Access{Endpoint: endpoint, Region: defaultRegion, AccessKey: c.accessKey, SecretKey: c.secretKey}
	gateway := &S3{Access: access, Port: port, group: c.group, spec: spec}
	return gateway, gateway.Restart(ctx)
}

func (c *Ceph) path(name string) string { return filepath.Join(c.dir, name) }

// spec is a program of the cluster, with a log of its own.
func (c *Ceph) spec(name, program string, args ...string) Spec {
	return Spec{Name: name, Path: program, Args: args, Env: []string{"CEPH_CONF=" + c.path("ceph.conf")}, LogFile: c.path(filepath.Base(program) + ".log")}
}

func (c *Ceph) run(ctx context.Context, program string, args ...string) error {
	return c.group.Run(ctx, c.spec(filepath.Base(program), program, args...))
}
