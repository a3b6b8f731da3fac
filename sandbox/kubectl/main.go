// kubectl, with nothing else in it but `kubectl kstatus` and the kustomize that it is built with, so that it starts fast. Called through a
// link named kustomize, it is that.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	_ "drover.dev/sandbox/kubectl/english"
	"drover.dev/sandbox/kubectl/kstatus"
)

func main() {
	if filepath.Base(os.Args[0]) == "kustomize" {
		if kustomize().Execute() != nil { // which it has printed
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "kstatus" {
		if err := kstatus.Print(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "kubectl kstatus:", err)
			os.Exit(1)
		}
		return
	}
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints the error and exits with its code
	}
}
