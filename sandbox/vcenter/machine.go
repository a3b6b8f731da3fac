package vcenter

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// machineCounts are how many machines there are, templates left out, how many of them are powered on, and how many clones
// are under way.
type machineCounts struct {
	Machines  int `json:"machines"`
	PoweredOn int `json:"poweredOn"`
	Cloning   int `json:"cloning"`
}

// countMachines looks past the API, so that a test can look often without slowing down what it measures.
func (f *front) countMachines() machineCounts {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	counts := machineCounts{Cloning: f.folders.cloning()}
	for _, entity := range ctx.Map.All("VirtualMachine") {
		vm, ok := entity.(*simulator.VirtualMachine)
		if !ok {
			continue
		}
		ctx.WithLock(vm, func() {
			if vm.Config.Template {
				return
			}
			counts.Machines++
			if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
				counts.PoweredOn++
			}
		})
	}
	return counts
}

// setMachine changes a machine, named by its name or reference, as its guest or host would.
func (f *front) setMachine(name string, s machineState) error {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	var found []*simulator.VirtualMachine
	for _, entity := range ctx.Map.All("VirtualMachine") {
		vm, ok := entity.(*simulator.VirtualMachine)
		if ok && (vm.Name == name || vm.Self.Value == name) {
			found = append(found, vm)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("%d machines are called %q", len(found), name)
	}
	ctx.WithLock(found[0], func() { ctx.Update(found[0], s.changes()) })
	return nil
}
