package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drover.dev/sandbox/node"
	"drover.dev/sandbox/vcenter"
)

const upUsage = `Starts etcd, kube-apiserver, kube-controller-manager and simulated vCenters on free loopback ports, waits until they
are ready, writes DIR/env (shell exports) and returns. They run until 'sandbox down --dir DIR' or the owner's end.
With --node, pods run too, on a node in namespaces of its own, which goes with the rest.

`

// options are the flags of 'sandbox up'.
type options struct {
	dir        string
	owner      int
	vcenters   int
	inventory  vcenter.Inventory
	kubernetes bool
	node       bool
	images     []string
	restart    []string
}

func parseOptions(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("up", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", "", "the sandbox's own `folder`: made if missing, else empty or a former sandbox's")
	f.IntVar(&o.owner, "owner", 0, "`PID` of a process; when it ends, so does the sandbox")
	f.IntVar(&o.vcenters, "vcenters", 1, "how many vCenters; in env the second is VC2_…, and so on")
	f.BoolVar(&o.kubernetes, "kubernetes", true, "a Kubernetes control plane; without one, vCenters are up in half a second")
	f.BoolVar(&o.node, "node", false, "add a real node that runs pods (Linux, as root)")
	f.Func("image", "an image that the node can pull, as `NAME=FOLDER` or NAME=ARCHIVE (OCI); can be given again", func(image string) error {
		o.images = append(o.images, image)
		return nil
	})
	f.Func("restart", "start this `part` again when it ends: etcd, kube-apiserver or kube-controller-manager; can be given again", func(name string) error {
		if !slices.Contains([]string{"etcd", "kube-apiserver", "kube-controller-manager"}, name) {
			return fmt.Errorf("%q is no part that can be started again", name)
		}
		o.restart = append(o.restart, name)
		return nil
	})
	o.inventory.Register(f)
	if err := parseFlags(f, args, upUsage); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o *options) check() (err error) {
	if o.dir, err = checkDir(o.dir); err != nil {
		return err
	}
	if err := o.inventory.Check(); err != nil {
		return badInput{err}
	}
	if o.vcenters < 1 || o.vcenters > 64 {
		return badInput{fmt.Errorf("--vcenters %d: give 1 to 64", o.vcenters)}
	}
	if err := o.checkNode(); err != nil {
		return badInput{err}
	}
	if o.owner != 0 && !alive(o.owner) {
		return badInput{fmt.Errorf("--owner %d: no such process", o.owner)}
	}
	return nil
}

func (o *options) checkNode() error {
	if !o.node && len(o.images) > 0 {
		return errors.New("--image: only a node pulls images, so give --node too")
	}
	for i, image := range o.images {
		name, folder, err := node.ParseImage(image)
		if err != nil {
			return fmt.Errorf("--image %w", err)
		}
		o.images[i] = name + "=" + folder
	}
	if !o.node {
		return nil
	}
	if !o.kubernetes {
		return errors.New("--node: a node needs a cluster, so leave --kubernetes=false out")
	}
	if err := node.Check(); err != nil {
		return fmt.Errorf("--node: %w", err)
	}
	return nil
}

func parseDir(word string, args []string) (string, error) {
	f := flag.NewFlagSet(word, flag.ContinueOnError)
	dir := f.String("dir", "", "the sandbox's `folder`")
	if err := parseFlags(f, args, "Stops all that runs in the sandbox's folder. Its logs stay.\n\n"); err != nil {
		return "", err
	}
	return checkDir(*dir)
}

func checkDir(dir string) (string, error) {
	if dir == "" {
		return "", badInput{errors.New("--dir DIR is missing")}
	}
	return filepath.Abs(dir)
}

// parseFlags parses with one line for an error, and the usage only where it is asked for.
func parseFlags(f *flag.FlagSet, args []string, intro string) error {
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Print(intro)
		f.SetOutput(os.Stdout)
		f.PrintDefaults()
		os.Exit(0)
	}
	if err != nil {
		return badInput{fmt.Errorf("%w ('sandbox %s --help' lists the flags)", err, f.Name())}
	}
	if f.NArg() > 0 {
		return badInput{fmt.Errorf("unexpected words: %s", strings.Join(f.Args(), " "))}
	}
	return nil
}
