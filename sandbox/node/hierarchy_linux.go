package node

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// unified tells whether the machine has the one hierarchy of cgroup v2, rather than one for each controller.
func unified() bool {
	var fs unix.Statfs_t
	return unix.Statfs(cgroupRoot, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// hierarchy is a tree of cgroups: the one of v2, or one of v1.
type hierarchy struct {
	controllers string
	mount       string // where the tree is seen
	root        string // which of its cgroups is seen there
	path        string // the cgroup of this process
}

// own is the cgroup below which a node made by this process has its own. With v1, that is the process's, so that its
// limits hold. With v2 it is the root, because any other that has processes can't have children with controllers.
func (h hierarchy) own() string {
	below, err := filepath.Rel(h.root, h.path)
	if err != nil || strings.HasPrefix(below, "..") || unified() {
		return h.mount
	}
	return filepath.Join(h.mount, below)
}

// mountedHierarchies are those that can be seen.
func mountedHierarchies() ([]hierarchy, error) {
	if unified() {
		return []hierarchy{{mount: cgroupRoot}}, nil
	}
	hierarchies, err := ownHierarchies()
	if err != nil {
		return nil, err
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	in := bufio.NewScanner(mounts)
	for in.Scan() {
		// 30 23 0:26 /root /mount/point rw … - cgroup source rw,cpu,cpuacct
		place, kind, _ := strings.Cut(in.Text(), " - ")
		from, what := strings.Fields(place), strings.Fields(kind)
		if len(from) < 5 || len(what) < 3 || what[0] != "cgroup" {
			continue
		}
		for i := range hierarchies {
			if h := &hierarchies[i]; h.mount == "" && h.is(what[2]) {
				h.root, h.mount = from[3], from[4]
			}
		}
	}
	return slices.DeleteFunc(hierarchies, func(h hierarchy) bool { return h.mount == "" }), in.Err()
}

// is tells whether a mount with these options shows the hierarchy.
func (h hierarchy) is(options string) bool {
	have := strings.Split(options, ",")
	for controller := range strings.SplitSeq(h.controllers, ",") {
		if !slices.Contains(have, controller) {
			return false
		}
	}
	return true
}

// ownHierarchies are those of v1 in which this process has a cgroup.
func ownHierarchies() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var own []hierarchy
	for line := range strings.Lines(string(text)) {
		// 4:memory:/path; controllers are missing for v2, which has none where v1 is in use.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && fields[1] != "" {
			own = append(own, hierarchy{controllers: fields[1], path: fields[2]})
		}
	}
	return own, nil
}
