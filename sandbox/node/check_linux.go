package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programPath is where the node's programs are looked for: a user's PATH may miss those of the administrator.
func programPath() string {
	return os.Getenv("PATH") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// Check says in one line why there can't be a node here.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root: it has namespaces, mounts and cgroups of its own")
	}
	if err := os.Setenv("PATH", programPath()); err != nil {
		return err
	}
	var missing []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "runc", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if !isStatic(busybox) {
		missing = append(missing, "a static "+busybox)
	}
	if _, err := cniPlugins(); err != nil {
		missing = append(missing, "the CNI plugins")
	}
	if len(missing) > 0 {
		return fmt.Errorf("a node needs %s: hack/node-packages.sh installs what is missing", strings.Join(missing, ", "))
	}
	return nil
}

// cniPlugins is the folder that has them; distributions differ.
func cniPlugins() (string, error) {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no folder with the CNI plugins")
}
