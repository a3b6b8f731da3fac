package vcenter

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
)

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
