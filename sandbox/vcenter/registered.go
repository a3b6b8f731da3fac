package vcenter

import (
	"context"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// registered are the configs of machines that were unregistered, by the path of their file: that still has all of it.
type registered struct {
	mu      sync.Mutex
	configs map[string]*types.VirtualMachineConfigInfo
}

// unregister answers a call that takes a machine out of the inventory and leaves its files.
func (f *front) unregister(c *call, ask func() *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	vm, ok := f.service.Context.Map.Get(c.this).(*simulator.VirtualMachine)
	out := ask()
	if !ok || f.service.Context.Map.Get(c.this) != nil {
		return out
	}
	f.registered.mu.Lock()
	defer f.registered.mu.Unlock()
	if f.registered.configs == nil {
		f.registered.configs = map[string]*types.VirtualMachineConfigInfo{}
	}
	f.registered.configs[vm.Config.Files.VmPathName] = vm.Config
	return out
}

// register is the task that brings a machine's files back into the inventory. vcsim makes an empty machine of them.
func (f *front) register(c *call, request *types.RegisterVM_Task) reference {
	return f.submit(c, func(*simulator.Task) outcome {
		made := f.create(c, c.this, func(ctx context.Context) (reference, error) {
			response, err := methods.RegisterVM_Task(ctx, f.service, request)
			if err != nil {
				return reference{}, err
			}
			return response.Returnval, nil
		})
		if machine, ok := made.result.(reference); ok {
			f.restore(machine)
			f.sight.settle(machine)
			f.collectors.touch(machine, false)
		}
		return made
	})
}

// restore gives a machine what its file says of it.
func (f *front) restore(machine reference) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	vm, ok := ctx.Map.Get(machine).(*simulator.VirtualMachine)
	if !ok {
		return
	}
	f.registered.mu.Lock()
	config := f.registered.configs[vm.Config.Files.VmPathName]
	delete(f.registered.configs, vm.Config.Files.VmPathName)
	f.registered.mu.Unlock()
	if config == nil {
		return
	}
	spec := types.VirtualMachineConfigSpec{Uuid: config.Uuid, InstanceUuid: config.InstanceUuid}
	f.giveUUIDs(&spec)
	ctx.WithLock(vm, func() {
		config.Name, config.InstanceUuid, config.Template = vm.Name, spec.InstanceUuid, vm.Config.Template
		vm.Config = config
		summary := &vm.Summary.Config
		summary.Uuid, summary.InstanceUuid = config.Uuid, config.InstanceUuid
		summary.NumCpu, summary.MemorySizeMB = config.Hardware.NumCPU, config.Hardware.MemoryMB
		ctx.Update(vm, []types.PropertyChange{{Name: "config.changeVersion", Val: time.Now().Format(time.RFC3339Nano)}})
	})
}
