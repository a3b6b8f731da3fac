// The sandbox: a real Kubernetes control plane and a simulated vCenter on loopback. One multi-call binary starts them all, and
// is what they have in common; those that are heavy lie in binaries beside it.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const usage = `The sandbox runs a real Kubernetes control plane and simulated vCenters on loopback.

Its own words:
  sandbox up --dir DIR [flags]   start everything, write DIR/env, return   (sandbox up --help)
  sandbox down --dir DIR         stop everything that runs in DIR
  sandbox keep --owner PID --log FILE -- COMMAND …
                                 run a command that ends with its owner

Real programs, each with its own flags and help:
  sandbox etcd | kube-apiserver | kube-controller-manager | kubectl | kustomize | govc | vcsim
  and on Linux also kube-scheduler | kubelet | kube-proxy

Called through a link named after one of these programs, it is that program.
`

// badInput is an error that the caller can mend: one line, exit code 2.
type badInput struct{ error }

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	if _, ok := programs[name]; !ok {
		if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
			fmt.Print(usage)
			return
		}
		name, args = args[0], args[1:]
	}
	if run, ok := programs[name]; ok {
		os.Args = append([]string{name}, args...)
		os.Exit(run())
	}
	if err := own(name, args); err != nil {
		fmt.Fprintf(os.Stderr, "sandbox %s: %v\n", name, err)
		if errors.As(err, new(badInput)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func own(name string, args []string) error {
	switch name {
	case "up":
		return up(args)
	case "down":
		return down(args)
	case "keep":
		return keep(args)
	case "supervise":
		return supervise(args)
	}
	return badInput{fmt.Errorf("no such word: 'sandbox help' lists them")}
}
