package vcenter

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// diskUse is a file that a machine locks while it runs. One that is only read, such as the base of a snapshot, is locked for
// those who would write to it.
type diskUse struct {
	diskFile
	writes bool
}

// clashes tells whether two machines can't both run with such a file.
func (u diskUse) clashes(other diskUse) bool {
	return u.stem() == other.stem() && (u.writes || other.writes)
}

// usesOf are the files that some disks of a machine lock.
func (f *front) usesOf(machine reference, disks []*types.VirtualDisk) []diskUse {
	var uses []diskUse
	for _, disk := range disks {
		backing, ok := backingOf(disk)
		writes := ok && backing.Sharing != string(types.VirtualDiskSharingSharingMultiWriter)
		for i, file := range f.chain(machine, disk) {
			uses = append(uses, diskUse{file, writes && i == 0})
		}
	}
	return uses
}

// disksIn are the disks that a machine has now.
func (f *front) disksIn(vm *simulator.VirtualMachine) (disks []*types.VirtualDisk, isOn bool) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() {
		isOn = vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
		disks = disksOf(vm.Config.Hardware.Device)
	})
	return disks, isOn
}

// claim are the files that a machine is about to lock: it doesn't run with them yet.
type claim struct {
	machine reference
	uses    []diskUse
}

// lock claims files for a machine, until it runs with them. It fails if another machine has locked one.
func (f *front) lock(machine reference, uses []diskUse) (release func(), fault types.BaseMethodFault) {
	d := &f.disks
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, use := range uses {
		if f.isLocked(use, machine) {
			return nil, locked(use.name)
		}
	}
	if d.claims == nil {
		d.claims = map[*claim]bool{}
	}
	made := &claim{machine, uses}
	d.claims[made] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.claims, made)
	}, nil
}

func locked(name string) types.BaseMethodFault {
	return &types.FileLocked{FileFault: types.FileFault{File: name}}
}

// isLocked tells whether a machine other than this one keeps it from a file. f.disks is locked.
func (f *front) isLocked(use diskUse, machine reference) bool {
	if !f.disks.attached[use.stem()] {
		return false
	}
	for claim := range f.disks.claims {
		if claim.machine != machine && slices.ContainsFunc(claim.uses, use.clashes) {
			return true
		}
	}
	for _, vm := range f.machines() {
		if vm.Self == machine {
			continue
		}
		disks, isOn := f.disksIn(vm)
		if isOn && slices.ContainsFunc(f.usesOf(vm.Self, disks), use.clashes) {
			return true
		}
	}
	return false
}

// noteAttached takes up that a machine gets a file that was there before: only such a file can be had by two machines.
func (d *disks) noteAttached(file diskFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attached == nil {
		d.attached = map[string]bool{}
	}
	d.attached[file.stem()] = true
}

// sharesDisks tells whether another machine may have a disk of this one.
func (f *front) sharesDisks(machine reference) bool {
	vm, ok := f.service.Context.Map.Get(machine).(*simulator.VirtualMachine)
	if !ok {
		return false
	}
	f.disks.mu.Lock()
	none := len(f.disks.attached) == 0
	f.disks.mu.Unlock()
	if none {
		return false
	}
	disks, _ := f.disksIn(vm)
	uses := f.usesOf(machine, disks)
	f.disks.mu.Lock()
	defer f.disks.mu.Unlock()
	for _, use := range uses {
		if f.disks.attached[use.stem()] {
			return true
		}
	}
	return false
}

// poweringOn has a machine powered on with its files locked.
func (f *front) poweringOn(machine reference, powerOn func() outcome) outcome {
	if !f.sharesDisks(machine) {
		return powerOn()
	}
	vm, ok := f.service.Context.Map.Get(machine).(*simulator.VirtualMachine)
	if !ok {
		return powerOn()
	}
	disks, _ := f.disksIn(vm)
	release, fault := f.lock(machine, f.usesOf(machine, disks))
	if fault != nil {
		return failure(fault)
	}
	defer release()
	return powerOn()
}

// powerOn is the task that powers on a machine which another may have taken a disk from.
func (f *front) powerOn(r *http.Request, c *call, request *types.PowerOnVM_Task) reference {
	return f.submit(c, func(*simulator.Task) outcome {
		return f.poweringOn(c.this, func() outcome { return f.asPart(r, c, methods.PowerOnVM_TaskBody{Req: request}) })
	})
}

// powerOnPart powers a machine on as a part of another task.
func (f *front) powerOnPart(machine reference) outcome {
	return f.poweringOn(machine, func() outcome {
		return f.part(machine, func(ctx context.Context) (reference, error) {
			response, err := methods.PowerOnVM_Task(ctx, f.service, &types.PowerOnVM_Task{This: machine})
			if err != nil {
				return reference{}, err
			}
			return response.Returnval, nil
		})
	})
}

// checkFiles refuses to delete, move or extend what a running machine has.
func (f *front) checkFiles(_ *call, call any) types.BaseMethodFault {
	switch request := call.(type) {
	case *types.DeleteVirtualDisk_Task:
		return f.checkUnlocked(request.Datacenter, request.Name)
	case *types.DeleteDatastoreFile_Task:
		return f.checkUnlocked(request.Datacenter, request.Name)
	case *types.ExtendVirtualDisk_Task:
		return f.checkUnlocked(request.Datacenter, request.Name)
	case *types.MoveVirtualDisk_Task:
		return f.checkUnlocked(request.SourceDatacenter, request.SourceName)
	case *types.MoveDatastoreFile_Task:
		return f.checkUnlocked(request.SourceDatacenter, request.SourceName)
	case *types.CopyVirtualDisk_Task:
		return f.checkUnlocked(request.SourceDatacenter, request.SourceName)
	}
	return nil
}

// checkUnlocked refuses a file, or a folder with one, that a running machine has.
func (f *front) checkUnlocked(datacenter *reference, name string) types.BaseMethodFault {
	if datacenter == nil {
		return nil // vcsim says what is wrong
	}
	wanted, ok := f.fileAt(*datacenter, name)
	if !ok {
		return nil
	}
	for _, vm := range f.machines() {
		disks, isOn := f.disksIn(vm)
		if !isOn {
			continue
		}
		for _, held := range f.usesOf(vm.Self, disks) {
			if held.stem() == wanted.stem() || strings.HasPrefix(held.path, wanted.path+string(filepath.Separator)) {
				return locked(name)
			}
		}
	}
	return nil
}
