package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mount makes the mounts of this process, the one of a node, private: whatever containerd, the kubelet and
// the CNI plugins keep at fixed paths of the machine stays in the node.
func (n *node) mount() error {
	// The programs of the node and its pods see each other's mounts; nothing outside does, because
	// init made what they share private.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts in the node: %w", err)
	}
	// A file descriptor reaches a directory that a mount has covered.
	needed := make(map[string]*os.File)
	for _, path := range []string{n.data.dir, n.programs.kubeDir, n.programs.clusterDir} {
		dir, err := os.Open(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		needed[path] = dir
	}
	for _, path := range []string{"/run", "/var/lib", "/var/log"} {
		if err := unix.Mount("tmpfs", path, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("cover %s: %w", path, err)
		}
	}
	for path, dir := range needed {
		if err := bind(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), path); err != nil {
			return err
		}
	}
	if err := bind(n.path("kubelet"), "/var/lib/kubelet"); err != nil {
		return err
	}
	for name, value := range sysctls {
		file, err := n.writeSysctl(name, value)
		if err != nil {
			return err
		}
		target := filepath.Join("/proc/sys", name)
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %s: %w", target, err)
		}
	}
	return nil
}

// bind makes a directory appear at a path, which is made.
func bind(source, path string) error {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return err
	}
	if err := unix.Mount(source, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, path, err)
	}
	return nil
}
