package vcenter

import (
	"net/http/httptest"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// What can be done to a machine that vCenter has lost sight of.
var withoutConnection = map[string]bool{"UnregisterVM": true, "Rename_Task": true, "SetCustomValue": true}

// connected refuses a call for a machine whose host or storage is away.
func (f *front) connected(c *call) *httptest.ResponseRecorder {
	vm, ok := f.service.Context.Map.Get(c.this).(*simulator.VirtualMachine)
	if !ok || withoutConnection[c.method] {
		return nil
	}
	out := httptest.NewRecorder()
	switch vm.Runtime.ConnectionState {
	case types.VirtualMachineConnectionStateConnected:
		return nil
	case types.VirtualMachineConnectionStateDisconnected:
		writeFault(out, "The machine's host is not connected.", &types.HostNotConnected{})
	default:
		writeFault(out, "The operation is not allowed in the current state.", &types.InvalidState{})
	}
	return out
}

// hotMemory is how much memory a running Linux needs to have more than that added.
const hotMemory = 3072

// checkReconfigure refuses what can't be changed of a machine that runs. vcsim changes anything at any time.
func (f *front) checkReconfigure(c *call, call any) (fault types.BaseMethodFault) {
	request, ok := call.(*types.ReconfigVM_Task)
	if !ok {
		return nil
	}
	vm, ok := f.service.Context.Map.Get(c.this).(*simulator.VirtualMachine)
	if !ok {
		return nil
	}
	if len(request.Spec.DeviceChange) > 0 {
		if fault := f.checkNetworks(*vm.Parent, request.Spec.DeviceChange); fault != nil {
			return fault
		}
	}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() { fault = checkHardware(vm, &request.Spec) })
	return fault
}

func checkHardware(vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	hardware := vm.Config.Hardware
	cpus, cores := hardware.NumCPU, hardware.NumCoresPerSocket
	if spec.NumCPUs != 0 {
		cpus = spec.NumCPUs
	}
	if spec.NumCoresPerSocket != nil {
		cores = spec.NumCoresPerSocket
	}
	if fault := checkCores(cpus, cores); fault != nil {
		return fault
	}
	if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
		return nil
	}
	off := &types.InvalidPowerState{
		RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: types.VirtualMachinePowerStatePoweredOn,
	}
	hadCores := int32(1)
	if hardware.NumCoresPerSocket != nil {
		hadCores = *hardware.NumCoresPerSocket
	}
	switch {
	case cpus > hardware.NumCPU && !isTrue(vm.Config.CpuHotAddEnabled), cpus < hardware.NumCPU && !isTrue(vm.Config.CpuHotRemoveEnabled):
		return off
	case spec.NumCoresPerSocket != nil && *spec.NumCoresPerSocket != hadCores:
		return off
	case spec.MemoryMB == 0 || spec.MemoryMB == int64(hardware.MemoryMB):
		return nil
	case spec.MemoryMB < int64(hardware.MemoryMB) || !isTrue(vm.Config.MemoryHotAddEnabled):
		return off
	}
	return checkHotMemory(vm.Config, spec.MemoryMB)
}

// checkHotMemory refuses memory that can't be added to a machine that runs.
func checkHotMemory(config *types.VirtualMachineConfigInfo, memory int64) types.BaseMethodFault {
	had, limit, increment := int64(config.Hardware.MemoryMB), config.HotPlugMemoryLimit, config.HotPlugMemoryIncrementSize
	if had <= hotMemory && memory > hotMemory || limit > 0 && memory > limit || increment > 0 && (memory-had)%increment != 0 {
		return &types.InvalidVmConfig{Property: "configSpec.memoryMB"}
	}
	return nil
}

func isTrue(flag *bool) bool { return flag != nil && *flag }
