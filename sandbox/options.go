package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const upUsage = `Starts etcd, kube-apiserver, kube-controller-manager and simulated vCenters on free loopback ports, waits until they
are ready, writes DIR/env (shell exports) and returns. They run until 'sandbox down --dir DIR' or the owner's end.

`

// options are the flags of 'sandbox up'.
type options struct {
	dir              string
	owner            int
	vcenters         int
	hosts            int
	cloneDelay       time.Duration
	powerDelay       time.Duration
	seedInventory    bool
	secondDatacenter bool
	secondTemplate   bool
}

func parseOptions(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("up", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", "", "the sandbox's own `folder`: made if missing, else empty or a former sandbox's")
	f.IntVar(&o.owner, "owner", 0, "`PID` of a process; when it ends, so does the sandbox")
	f.IntVar(&o.vcenters, "vcenters", 1, "how many vCenters; in env the second is VC2_…, and so on")
	f.IntVar(&o.hosts, "hosts", 4, "ESXi hosts in each vCenter's cluster")
	f.DurationVar(&o.cloneDelay, "clone-delay", 0, "how long a clone takes, e.g. 3s")
	f.DurationVar(&o.powerDelay, "power-delay", 0, "how long powering on or off takes, e.g. 500ms")
	f.BoolVar(&o.seedInventory, "seed-inventory", true, "make DC0, its cluster, the folder vm-operator and the template vm-operator-template")
	f.BoolVar(&o.secondDatacenter, "second-datacenter", false, "add a second datacenter, DC1")
	f.BoolVar(&o.secondTemplate, "second-template", false, "add a second template of the same name, in the folder elsewhere")
	if err := parseFlags(f, args, upUsage); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o *options) check() error {
	dir, err := checkDir(o.dir)
	if err != nil {
		return err
	}
	o.dir = dir
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{o.vcenters < 1 || o.vcenters > 64, fmt.Sprintf("--vcenters %d: give 1 to 64", o.vcenters)},
		{o.hosts < 1 || o.hosts > 1000, fmt.Sprintf("--hosts %d: give 1 to 1000", o.hosts)},
		{o.cloneDelay < 0, fmt.Sprintf("--clone-delay %s: a delay can't be negative", o.cloneDelay)},
		{o.powerDelay < 0, fmt.Sprintf("--power-delay %s: a delay can't be negative", o.powerDelay)},
		{o.owner != 0 && !alive(o.owner), fmt.Sprintf("--owner %d: no such process", o.owner)},
		{!o.seedInventory && (o.secondDatacenter || o.secondTemplate), "--second-datacenter and --second-template add to the seed inventory: leave --seed-inventory on"},
	} {
		if c.bad {
			return badInput{errors.New(c.what)}
		}
	}
	return nil
}

// vcsimArgs are the flags of the vcsim program that these options ask for.
func (o *options) vcsimArgs() []string {
	return []string{
		fmt.Sprintf("--hosts=%d", o.hosts),
		fmt.Sprintf("--clone-delay=%s", o.cloneDelay),
		fmt.Sprintf("--power-delay=%s", o.powerDelay),
		fmt.Sprintf("--seed-inventory=%t", o.seedInventory),
		fmt.Sprintf("--second-datacenter=%t", o.secondDatacenter),
		fmt.Sprintf("--second-template=%t", o.secondTemplate),
	}
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
