package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"drover.dev/sandbox/names"
	"drover.dev/sandbox/node"
)

// What a node takes more than a control plane does. Only Linux can be one.
func init() {
	servers["kubelet"] = func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) }
	servers["kube-proxy"] = func() int { return cli.Run(proxy.NewProxyCommand()) }
	servers["kube-scheduler"] = func() int { return cli.Run(scheduler.NewSchedulerCommand()) }
	servers["node-keeper"] = func() int { return node.Keep(os.Args[1:]) }
	servers["node-init"] = func() int { return node.Init(os.Args[1:], names.Serve) }
}
