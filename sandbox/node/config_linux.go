package node

import (
	"bytes"
	"embed"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"text/template"

	"golang.org/x/sys/unix"
)

//go:embed all:etc
var templates embed.FS

// registryAddress is the registry's, in the node's own network namespace.
var registryAddress = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), registryPort).String()

// config is what the templates in etc are filled with.
type config struct {
	Place                                            Place
	PKI, Etc, CNI, Registry, PauseImage, Snapshotter string
}

// write fills in all templates, into the folder c.Etc.
func (c config) write() error {
	return fs.WalkDir(templates, "etc", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel("etc", path)
		if err != nil {
			return err
		}
		target := filepath.Join(c.Etc, below)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		filling, err := template.ParseFS(templates, path)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := filling.Execute(&text, c); err != nil {
			return err
		}
		return os.WriteFile(target, text.Bytes(), 0o644)
	})
}

// snapshotter is how containerd keeps images in this folder: as layers, unless the file system can't have them.
func snapshotter(dir string) (string, error) {
	dir = filepath.Join(dir, "overlay-trial")
	paths := map[string]string{}
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		paths[name] = filepath.Join(dir, name)
		if err := os.MkdirAll(paths[name], 0o755); err != nil {
			return "", err
		}
	}
	options := "lowerdir=" + paths["lower"] + ",upperdir=" + paths["upper"] + ",workdir=" + paths["work"]
	if unix.Mount("overlay", paths["merged"], "overlay", 0, options) != nil {
		return "native", os.RemoveAll(dir)
	}
	return "overlayfs", errors.Join(unix.Unmount(paths["merged"], 0), os.RemoveAll(dir))
}
