// The servers of a cluster in one binary: etcd, the control plane, and on Linux what a node runs. The first word says
// which one it is; `sandbox` calls it.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// servers each read os.Args and return their exit code.
var servers = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
}

func main() {
	// Each server stands as if alone: its name is the first of the arguments.
	os.Args = os.Args[1:]
	if len(os.Args) > 0 {
		if run, ok := servers[os.Args[0]]; ok {
			os.Exit(run())
		}
	}
	fmt.Fprintln(os.Stderr, "kubernetes: no such server: 'sandbox help' lists them")
	os.Exit(2)
}
