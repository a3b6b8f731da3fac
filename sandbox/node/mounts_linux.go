package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// settings of the whole kernel that the kubelet writes at its start.
var settings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// mountAll gives the node its own view of the machine: its own processes, devices, cgroups and state, and the
// machine's programs. All of it ends with the mount namespace. What is kept stays visible where it was.
func mountAll(state string, kept ...string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// The kubelet, containerd and CNI write below these, to paths that can't all be set.
	covered := []string{"/var/lib", "/var/log"}
	for _, path := range covered {
		own := filepath.Join(state, path)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		kept = append(kept, own)
	}
	// Held open, because a mount may cover the way to them.
	files := make([]*os.File, len(kept))
	for i, path := range kept {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		files[i] = file
	}
	cgroups := mountCgroups
	if unified() { // asked before /sys is mounted anew, without cgroups
		cgroups = mountUnified
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := mount("proc", "/proc", "proc", plain, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", plain, ""); err != nil {
		return err
	}
	if err := cgroups(); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	own := files[len(files)-len(covered):]
	for i, path := range covered {
		if err := mountOpen(own[i], path); err != nil {
			return err
		}
	}
	for _, file := range files[:len(files)-len(covered)] {
		if err := uncover(file); err != nil {
			return err
		}
	}
	if err := shadowSettings(); err != nil {
		return err
	}
	// As on any node, so that pods can be given mounts that come later.
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// uncover makes a file or folder visible again if a mount has covered it.
func uncover(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if seen, err := os.Stat(file.Name()); err == nil && os.SameFile(seen, info) {
		return nil
	}
	if info.IsDir() {
		err = os.MkdirAll(file.Name(), 0o755)
	} else if err = os.MkdirAll(filepath.Dir(file.Name()), 0o755); err == nil {
		err = os.WriteFile(file.Name(), nil, 0o755)
	}
	if err != nil {
		return err
	}
	return mountOpen(file, file.Name())
}

// mountOpen shows an open file or folder at another place.
func mountOpen(file *os.File, target string) error {
	return mount("/proc/self/fd/"+strconv.Itoa(int(file.Fd())), target, "", unix.MS_BIND|unix.MS_REC, "")
}

// mountUnified shows the node's cgroup of v2 as the root, as a cgroup namespace has it.
func mountUnified() error {
	if err := mount("cgroup2", cgroupRoot, "cgroup2", 0, ""); err != nil {
		return err
	}
	// A cgroup has either processes, or controllers for its children.
	own := filepath.Join(cgroupRoot, "init")
	if err := os.Mkdir(own, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("1"), 0); err != nil {
		return err
	}
	enableControllers(cgroupRoot)
	return nil
}

// mountCgroups does the same with each hierarchy of v1.
func mountCgroups() error {
	hierarchies, err := ownHierarchies()
	if err != nil {
		return err
	}
	if err := mount("cgroup", cgroupRoot, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, h := range hierarchies {
		name, options := h.controllers, h.controllers
		if named, ok := strings.CutPrefix(h.controllers, "name="); ok {
			name, options = named, "none,"+h.controllers
		}
		target := filepath.Join(cgroupRoot, name)
		if err := os.Mkdir(target, 0o755); err != nil {
			return err
		}
		if err := mount("cgroup", target, "cgroup", 0, options); err != nil {
			return err
		}
	}
	return nil
}

// shadowSettings lets the kubelet write files of the node's own instead of the kernel's settings.
func shadowSettings() error {
	if err := os.Mkdir("/run/settings", 0o755); err != nil {
		return err
	}
	for name, value := range settings {
		shadow := filepath.Join("/run/settings", filepath.Base(name))
		if err := os.WriteFile(shadow, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := mount(shadow, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount of %s: %w", target, err)
	}
	return nil
}
