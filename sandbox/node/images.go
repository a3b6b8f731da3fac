package node

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"drover.dev/sandbox/program"
)

// pauseImage holds the namespaces of a pod. Its name can't be mistaken for one of a public registry.
const pauseImage = "sandbox.local/pause:latest"

// busybox has to be static: an image has nothing else in it.
const busybox = "/bin/busybox"

// recipe is how to make one image. It is followed when the image is first asked for.
type recipe struct {
	name                string
	folder              string                    // or a file: an OCI archive
	lay                 func(folder string) error // fills the folder, where it isn't the user's
	entrypoint, command []string

	once  sync.Once
	image image
	err   error
}

// ownImages are those that every node has.
func ownImages(dir string) ([]*recipe, error) {
	// Asked for now: later, the node's first process reaps whatever ends, and this would be among it.
	commands, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", busybox, err)
	}
	return []*recipe{{
		name: "busybox:latest", folder: filepath.Join(dir, "busybox"), command: []string{"sh"},
		lay: func(folder string) error { return layBusybox(folder, strings.Fields(string(commands))) },
	}, {
		name: "pause:latest", folder: filepath.Join(dir, "pause"), entrypoint: []string{"/bin/busybox", "sleep", "2147483647"},
		lay: func(folder string) error { return install(busybox, filepath.Join(folder, "bin/busybox")) },
	}, {
		name: "kubectl:latest", folder: filepath.Join(dir, "kubectl"), entrypoint: []string{"/bin/kubectl"},
		lay: func(folder string) error {
			// The sandbox tells by its name which program it is.
			return errors.Join(install(program.Path("kubectl"), filepath.Join(folder, "bin/kubectl")),
				install(program.Path("govc"), filepath.Join(folder, "bin/govc")))
		},
	}}, nil
}

func (r *recipe) make(layers string) (image, error) {
	r.once.Do(func() {
		if r.lay != nil {
			if r.err = r.lay(r.folder); r.err != nil {
				return
			}
		}
		file := filepath.Join(layers, strings.NewReplacer("/", "-", ":", "-").Replace(r.name)+".tar")
		if info, err := os.Stat(r.folder); err == nil && !info.IsDir() {
			r.image, r.err = unpackArchive(r.folder, file+".blobs")
			return
		}
		r.image, r.err = pack(r.folder, file, r.entrypoint, r.command)
	})
	return r.image, r.err
}

// ParseImage reads NAME=FOLDER or NAME=ARCHIVE, where the name is what a pod has as its image.
func ParseImage(text string) (name, folder string, err error) {
	name, folder, ok := strings.Cut(text, "=")
	if !ok || name == "" || strings.ContainsAny(name, " @") || name != strings.ToLower(name) {
		return "", "", fmt.Errorf("%q: give NAME=FOLDER or NAME=ARCHIVE, such as my-shell:latest=./shell", text)
	}
	if _, err := os.Stat(folder); err != nil {
		return "", "", fmt.Errorf("%q: there is no folder or archive %s", text, folder)
	}
	// The registry's name isn't part of it: whichever is named, this node's own is asked.
	if host, rest, more := strings.Cut(name, "/"); more && strings.ContainsAny(host, ".:") {
		name = rest
	}
	if !strings.Contains(filepath.Base(name), ":") {
		name += ":latest"
	}
	folder, err = filepath.Abs(folder)
	return name, folder, err
}

// layBusybox lays out what the image of that name has: the program, a link for each of its commands, and the users.
func layBusybox(folder string, commands []string) error {
	if err := install(busybox, filepath.Join(folder, "bin/busybox")); err != nil {
		return err
	}
	for _, command := range commands {
		if err := os.Symlink("busybox", filepath.Join(folder, "bin", command)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, name := range []string{"etc", "home", "root", "usr/bin", "usr/sbin", "var"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			return err
		}
	}
	tmp := filepath.Join(folder, "tmp")
	return errors.Join(
		os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777|os.ModeSticky),
		os.Symlink("../../bin/env", filepath.Join(folder, "usr/bin/env")),
		os.WriteFile(filepath.Join(folder, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"), 0o644),
		os.WriteFile(filepath.Join(folder, "etc/group"), []byte("root:x:0:\nnobody:x:65534:\n"), 0o644))
}

// install puts a program into a folder that is to be an image.
func install(program, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if os.Link(program, target) == nil {
		return nil
	}
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// isStatic tells whether a program runs without any other file.
func isStatic(program string) bool {
	file, err := elf.Open(program)
	if err != nil {
		return false
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}
