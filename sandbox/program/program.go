// Package program knows which of the sandbox's binaries has which program. There are three, because a Go program sets up
// all that is linked into it each time it starts: with the servers in it, every govc and kubectl would cost 0.15 s of CPU.
package program

import (
	"os"
	"path/filepath"
	"strings"
)

// Path is where the binary lies that has the program: beside this one.
func Path(program string) string {
	self, err := os.Executable()
	if err != nil {
		panic(err) // the kernel always knows the file of a running program
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		panic(err) // and that file is there
	}
	return filepath.Join(filepath.Dir(self), binary(program))
}

func binary(program string) string {
	switch {
	case program == "kubectl", program == "kustomize":
		return "kubectl"
	case program == "etcd", strings.HasPrefix(program, "kube"), strings.HasPrefix(program, "node-"):
		return "kubernetes"
	}
	return "sandbox"
}
