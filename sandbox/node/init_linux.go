package node

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Init is the program of the node's first process: all others of the node are its children, and end with it. It has names served
// by a function, so that only who runs this program has to have it.
func Init(args []string, serveNames func(address netip.AddrPort, kubeconfig string) error) int {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	n := first{serveNames: serveNames, processes: processes{byPID: map[int]*process{}}}
	f := flag.NewFlagSet("node-init", flag.ExitOnError)
	f.StringVar(&n.dir, "dir", "", "the sandbox's `folder`")
	f.IntVar(&n.place.Number, "place", 0, "the node's place")
	f.Func("image", "an image to serve, as `NAME=FOLDER`", func(text string) error {
		name, folder, err := ParseImage(text)
		n.images = append(n.images, &recipe{name: name, folder: folder})
		return err
	})
	entered := f.Bool("entered", false, "all namespaces are entered")
	_ = f.Parse(args) // ExitOnError
	run := n.enter
	if *entered {
		run = n.run
	}
	if err := run(); err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

// first is the node's first process.
type first struct {
	dir        string
	place      Place
	images     []*recipe
	serveNames func(address netip.AddrPort, kubeconfig string) error
	processes
}

// enter makes the cgroup that the keeper has put this process into the root of a namespace. A namespace is a thread's;
// by running the program anew, it becomes that of the whole process.
func (n *first) enter() error {
	runtime.LockOSThread()
	if err := await(enterWord); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cgroup namespace: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(self, slices.Concat([]string{self}, os.Args, []string{"--entered"}), os.Environ())
}

// await reads one line, and not a byte more: what follows is for whoever reads next.
func await(word string) error {
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := os.Stdin.Read(b); err != nil {
			return fmt.Errorf("waiting for %q: %w", word, err)
		}
		if b[0] == '\n' {
			break
		}
	}
	if string(line) != word {
		return fmt.Errorf("told %q instead of %q", line, word)
	}
	return nil
}

func (n *first) run() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	state := filepath.Join(n.dir, "node")
	kept := []string{n.dir, filepath.Dir(self)}
	for _, image := range n.images {
		if info, err := os.Stat(image.folder); err == nil && !info.IsDir() {
			kept = append(kept, filepath.Dir(image.folder))
			continue
		}
		kept = append(kept, image.folder)
	}
	if err := mountAll(state, kept...); err != nil {
		return err
	}
	if err := errors.Join(unix.Sethostname([]byte(n.place.Name())), n.place.joinLink(), os.Setenv("PATH", programPath())); err != nil {
		return err
	}
	c, err := n.configure(state)
	if err != nil {
		return err
	}
	if err := n.serveImages(filepath.Join(state, "images")); err != nil {
		return err
	}
	if err := n.start(&process{name: "containerd", program: "containerd", lives: 1, args: []string{"--config=" + c.Etc + "/containerd.toml"}}); err != nil {
		return err
	}
	if _, err := fmt.Println(upWord); err != nil {
		return err
	}
	go n.join(self, c)
	return n.reap()
}

func (n *first) configure(state string) (config, error) {
	cni, err := cniPlugins()
	if err != nil {
		return config{}, err
	}
	layers, err := snapshotter(state)
	if err != nil {
		return config{}, err
	}
	c := config{
		Place: n.place, PKI: filepath.Join(n.dir, "pki"), Etc: filepath.Join(state, "etc"), CNI: cni,
		Registry: registryAddress, PauseImage: pauseImage, Snapshotter: layers,
	}
	return c, c.write()
}

func (n *first) serveImages(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Inside, for the node to pull from, and on the link, for the machine to push to.
	var listeners []net.Listener
	for _, address := range []string{registryAddress, n.place.Registry().String()} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		listeners = append(listeners, listener)
	}
	own, err := ownImages(dir)
	if err != nil {
		return err
	}
	// The user's come first, and may take the name of one of the node's own.
	images := &registry{layers: dir, recipes: append(n.images, own...), pushed: newPushed(filepath.Join(dir, "pushed"))}
	for _, listener := range listeners {
		go func() { log.Fatal(http.Serve(listener, images)) }()
	}
	return nil
}
