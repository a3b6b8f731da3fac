package main

import (
	"fmt"
	"os"
	"syscall"

	govc "github.com/vmware/govmomi/cli"

	"drover.dev/sandbox/vcenter"

	// govc's commands register themselves.
	_ "github.com/vmware/govmomi/cli/about"
	_ "github.com/vmware/govmomi/cli/alarm"
	_ "github.com/vmware/govmomi/cli/cluster"
	_ "github.com/vmware/govmomi/cli/cluster/group"
	_ "github.com/vmware/govmomi/cli/cluster/override"
	_ "github.com/vmware/govmomi/cli/cluster/rule"
	_ "github.com/vmware/govmomi/cli/datacenter"
	_ "github.com/vmware/govmomi/cli/datastore"
	_ "github.com/vmware/govmomi/cli/device"
	_ "github.com/vmware/govmomi/cli/disk"
	_ "github.com/vmware/govmomi/cli/dvs"
	_ "github.com/vmware/govmomi/cli/dvs/portgroup"
	_ "github.com/vmware/govmomi/cli/env"
	_ "github.com/vmware/govmomi/cli/events"
	_ "github.com/vmware/govmomi/cli/fields"
	_ "github.com/vmware/govmomi/cli/folder"
	_ "github.com/vmware/govmomi/cli/host"
	_ "github.com/vmware/govmomi/cli/host/maintenance"
	_ "github.com/vmware/govmomi/cli/metric"
	_ "github.com/vmware/govmomi/cli/object"
	_ "github.com/vmware/govmomi/cli/option"
	_ "github.com/vmware/govmomi/cli/permissions"
	_ "github.com/vmware/govmomi/cli/pool"
	_ "github.com/vmware/govmomi/cli/role"
	_ "github.com/vmware/govmomi/cli/session"
	_ "github.com/vmware/govmomi/cli/tags"
	_ "github.com/vmware/govmomi/cli/tags/association"
	_ "github.com/vmware/govmomi/cli/tags/category"
	_ "github.com/vmware/govmomi/cli/task"
	_ "github.com/vmware/govmomi/cli/version"
	_ "github.com/vmware/govmomi/cli/vm"
	_ "github.com/vmware/govmomi/cli/vm/disk"
	_ "github.com/vmware/govmomi/cli/vm/guest"
	_ "github.com/vmware/govmomi/cli/vm/network"
	_ "github.com/vmware/govmomi/cli/vm/option"
	_ "github.com/vmware/govmomi/cli/vm/snapshot"
)

// programs are the real parts, by their names. Each reads os.Args, as if it stood alone, and returns its exit code.
var programs = map[string]func() int{
	"etcd":                    handOver,
	"kube-apiserver":          handOver,
	"kube-controller-manager": handOver,
	"kube-proxy":              handOver,
	"kube-scheduler":          handOver,
	"kubectl":                 handOver,
	"kubelet":                 handOver,
	"kustomize":               handOver,
	"govc":                    func() int { return govc.Run(os.Args[1:]) },
	"vcsim":                   func() int { return vcenter.Main(os.Args[1:]) },
}

// handOver becomes a program of another binary.
func handOver() int {
	cmd := command(os.Args[0], os.Args[1:]...)
	err := syscall.Exec(cmd.Path, cmd.Args, os.Environ())
	fmt.Fprintf(os.Stderr, "sandbox: %s: %v: `make build` builds it\n", cmd.Path, err)
	return 1
}
