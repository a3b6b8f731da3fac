package vcenter

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// disks knows which files machines are about to lock, and has one change of a machine's disks wait for the other.
type disks struct {
	mu       sync.Mutex
	turns    map[reference]*sync.Mutex
	attached map[string]bool // files that were there before a machine had them, by their stem
	claims   map[*claim]bool
	files    sync.Mutex // while one is read and written
}

func (d *disks) turn(machine reference) *sync.Mutex {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turns == nil {
		d.turns = map[reference]*sync.Mutex{}
	}
	if d.turns[machine] == nil {
		d.turns[machine] = new(sync.Mutex)
	}
	return d.turns[machine]
}

// changesDisks tells whether a reconfigure is for disks too.
func changesDisks(request any) (*types.ReconfigVM_Task, bool) {
	reconfigure, ok := request.(*types.ReconfigVM_Task)
	return reconfigure, ok && slices.ContainsFunc(reconfigure.Spec.DeviceChange, isDisk)
}

func isDisk(change types.BaseVirtualDeviceConfigSpec) bool {
	_, ok := change.GetVirtualDeviceConfigSpec().Device.(*types.VirtualDisk)
	return ok
}

// reconfigureDisks is the task of a reconfigure that changes disks. What can't be is refused before anything is done: vcsim
// would leave half of it.
func (f *front) reconfigureDisks(r *http.Request, c *call, request *types.ReconfigVM_Task) reference {
	return f.submit(c, func(*simulator.Task) outcome {
		turn := f.disks.turn(c.this)
		turn.Lock()
		defer turn.Unlock()
		vm, ok := f.service.Context.Map.Get(c.this).(*simulator.VirtualMachine)
		if !ok {
			return failure(&types.ManagedObjectNotFound{Obj: c.this})
		}
		change, fault := f.changeOf(vm, &request.Spec)
		if fault != nil {
			return failure(fault)
		}
		release, fault := f.lock(c.this, change.locks)
		if fault != nil {
			return failure(fault)
		}
		defer release()
		end := f.asPart(r, c, methods.ReconfigVM_TaskBody{Req: request})
		if end.fault == nil {
			change.finish()
		}
		return end
	})
}

// diskChange is what a reconfigure does to disks.
type diskChange struct {
	vm      *simulator.VirtualMachine
	front   *front
	isOn    bool
	devices object.VirtualDeviceList
	locks   []diskUse
	grown   []growth
	deleted []diskFile
}

// changeOf checks what a reconfigure does to disks, and completes what it leaves to vCenter.
func (f *front) changeOf(vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) (*diskChange, types.BaseMethodFault) {
	change := &diskChange{vm: vm, front: f}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() {
		change.isOn = vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
		var devices types.ArrayOfVirtualDevice
		duplicate(types.ArrayOfVirtualDevice{VirtualDevice: vm.Config.Hardware.Device}, &devices)
		change.devices = devices.VirtualDevice
	})
	for i, device := range spec.DeviceChange {
		if !isDisk(device) {
			continue
		}
		if fault := change.complete(spec.DeviceChange, int32(i)); fault != nil {
			return nil, fault
		}
	}
	return change, nil
}

func (d *diskChange) complete(all []types.BaseVirtualDeviceConfigSpec, index int32) types.BaseMethodFault {
	spec := all[index].GetVirtualDeviceConfigSpec()
	switch spec.Operation {
	case types.VirtualDeviceConfigSpecOperationRemove:
		return d.completeRemove(spec, index)
	case types.VirtualDeviceConfigSpecOperationEdit:
		return d.completeEdit(spec, index)
	}
	disk, ok := spec.Device.(*types.VirtualDisk)
	if !ok {
		return nil
	}
	if fault := checkUnit(d.devices, all, disk, index); fault != nil {
		return fault
	}
	switch spec.FileOperation {
	case types.VirtualDeviceConfigSpecFileOperationCreate:
		if fault := d.completeCreate(spec); fault != nil {
			return fault
		}
	case "":
		if fault := d.completeAttach(disk, index); fault != nil {
			return fault
		}
	}
	d.devices = append(d.devices, disk)
	return nil
}

// completeCreate refuses a disk where there is one, or no folder for it.
func (d *diskChange) completeCreate(spec *types.VirtualDeviceConfigSpec) types.BaseMethodFault {
	nameDisks([]types.BaseVirtualDeviceConfigSpec{spec})
	return d.front.checkPlace(d.vm.Self, spec)
}

// checkPlace refuses a new disk where there is one already, and one in a folder that isn't there. Where the spec names no
// file, vCenter finds a place.
func (f *front) checkPlace(machine reference, spec *types.VirtualDeviceConfigSpec) types.BaseMethodFault {
	disk, ok := spec.Device.(*types.VirtualDisk)
	if !ok {
		return nil
	}
	backing, ok := backingOf(disk)
	if !ok {
		return nil
	}
	file, ok := f.fileAt(machine, backing.FileName)
	if !ok || !strings.HasSuffix(file.path, ".vmdk") {
		return nil
	}
	if file.exists() {
		return &types.FileAlreadyExists{FileFault: types.FileFault{File: backing.FileName}}
	}
	if _, err := os.Stat(filepath.Dir(file.path)); err != nil {
		return &types.FileNotFound{FileFault: types.FileFault{File: backing.FileName}}
	}
	return nil
}

// completeAttach has size and UUID be those of the file. A machine that runs locks the file at once, and one that is off when
// it is powered on.
func (d *diskChange) completeAttach(disk *types.VirtualDisk, index int32) types.BaseMethodFault {
	uses := d.front.usesOf(d.vm.Self, []*types.VirtualDisk{disk})
	backing, ok := backingOf(disk)
	if !ok || len(uses) == 0 {
		return nil // vcsim says what is wrong
	}
	identity, err := d.front.identify(uses[0].diskFile)
	if err != nil {
		return &types.FileNotFound{FileFault: types.FileFault{File: backing.FileName}}
	}
	for _, own := range disksOf(d.devices) {
		if has, ok := backingOf(own); ok && has.FileName == backing.FileName {
			return &types.InvalidDeviceSpec{DeviceIndex: index}
		}
	}
	identity.give(disk, backing)
	for _, use := range uses {
		d.front.disks.noteAttached(use.diskFile)
	}
	if d.isOn {
		d.locks = append(d.locks, uses...)
	}
	return nil
}

// completeRemove has the machine's own disk removed, whatever else than its key the spec says.
func (d *diskChange) completeRemove(spec *types.VirtualDeviceConfigSpec, index int32) types.BaseMethodFault {
	disk, ok := d.devices.FindByKey(spec.Device.GetVirtualDevice().Key).(*types.VirtualDisk)
	if !ok {
		return unknownDevice(index)
	}
	if d.front.isInSnapshot(d.vm, disk) {
		return &types.GenericVmConfigFault{Reason: "The disk is part of a snapshot."}
	}
	spec.Device = disk
	// The machine knows the UUID until its file says it.
	for _, file := range d.front.chain(d.vm.Self, disk) {
		_, _ = d.front.identify(file)
	}
	if spec.FileOperation == types.VirtualDeviceConfigSpecFileOperationDestroy {
		d.deleted = append(d.deleted, d.front.chain(d.vm.Self, disk)...)
		d.locks = append(d.locks, d.front.usesOf(d.vm.Self, []*types.VirtualDisk{disk})...)
	}
	d.devices = slices.DeleteFunc(slices.Clone(d.devices), func(device types.BaseVirtualDevice) bool { return device == disk })
	return nil
}

func unknownDevice(index int32) types.BaseMethodFault {
	spec := &types.InvalidDeviceSpec{DeviceIndex: index}
	spec.Property = "virtualDeviceSpec.device.key"
	return spec
}

// finish does what vcsim has left undone.
func (d *diskChange) finish() {
	for _, growth := range d.grown {
		if identity, err := d.front.identify(growth.file); err == nil {
			identity.capacity = growth.capacity
			_ = growth.file.describe(identity)
		}
	}
	for _, file := range d.deleted {
		file.delete()
	}
}
