package vcenter

import (
	"github.com/vmware/govmomi/vim25/types"
)

// completeEdit has a disk grow as the spec says, and keep what the spec leaves out. It is the same file afterwards.
func (d *diskChange) completeEdit(spec *types.VirtualDeviceConfigSpec, index int32) types.BaseMethodFault {
	edited, ok := spec.Device.(*types.VirtualDisk)
	if !ok {
		return nil
	}
	old, ok := d.devices.FindByKey(edited.Key).(*types.VirtualDisk)
	if !ok {
		return unknownDevice(index)
	}
	capacity, ok := grown(old, edited)
	had, isFlat := backingOf(old)
	if !ok || isFlat && had.Parent != nil && capacity != old.CapacityInBytes {
		fault := &types.InvalidDeviceOperation{BadOp: spec.Operation}
		fault.DeviceIndex = index
		return fault
	}
	keep(edited, old)
	edited.CapacityInBytes, edited.CapacityInKB = capacity, capacity/1024
	if files := d.front.chain(d.vm.Self, old); len(files) > 0 && capacity != old.CapacityInBytes {
		d.grown = append(d.grown, growth{files[0], capacity})
	}
	return nil
}

// growth is what a file becomes larger to, in bytes.
type growth struct {
	file     diskFile
	capacity int64
}

// grown is the size in bytes that a spec asks for in one of two ways. One that is left out, or is as it was, doesn't count.
func grown(old, spec *types.VirtualDisk) (capacity int64, ok bool) {
	was := old.CapacityInBytes
	inBytes, inKB := spec.CapacityInBytes, spec.CapacityInKB*1024
	changesBytes, changesKB := inBytes != 0 && inBytes != was, inKB != 0 && inKB != was
	switch {
	case changesBytes && changesKB:
		return inBytes, inBytes == inKB && inBytes > was
	case changesBytes:
		return inBytes, inBytes > was
	case changesKB:
		return inKB, inKB > was
	}
	return was, true
}

// keep has an edited disk keep its place and its file.
func keep(edited, old *types.VirtualDisk) {
	if edited.ControllerKey == 0 {
		edited.ControllerKey, edited.UnitNumber = old.ControllerKey, old.UnitNumber
	}
	had, hasOld := backingOf(old)
	backing, ok := backingOf(edited)
	if !ok || !hasOld {
		edited.Backing = old.Backing
		return
	}
	backing.FileName, backing.Datastore, backing.Uuid, backing.Parent = had.FileName, had.Datastore, had.Uuid, had.Parent
	if backing.DiskMode == "" {
		backing.DiskMode = had.DiskMode
	}
	if backing.ThinProvisioned == nil {
		backing.ThinProvisioned = had.ThinProvisioned
	}
}
