package vcenter

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// snapshotTask is the task of a call that makes or removes snapshots, and fits the machine's disks to what is left of them.
// vcsim leaves the disks as they are.
func (f *front) snapshotTask(r *http.Request, c *call, request any) (task reference, ok bool) {
	switch request := request.(type) {
	case *types.CreateSnapshot_Task:
		return f.snapshots(r, c, c.this, methods.CreateSnapshot_TaskBody{Req: request}, f.addDelta), true
	case *types.CreateSnapshotEx_Task:
		return f.snapshots(r, c, c.this, methods.CreateSnapshotEx_TaskBody{Req: request}, f.addDelta), true
	case *types.RemoveAllSnapshots_Task:
		return f.snapshots(r, c, c.this, methods.RemoveAllSnapshots_TaskBody{Req: request}, f.mergeDeltas), true
	case *types.RemoveSnapshot_Task:
		if snapshot, ok := f.service.Context.Map.Get(c.this).(*simulator.VirtualMachineSnapshot); ok {
			return f.snapshots(r, c, snapshot.Vm, methods.RemoveSnapshot_TaskBody{Req: request}, f.mergeDeltas), true
		}
	}
	return reference{}, false
}

type deltaOf func(*simulator.VirtualMachine, *types.VirtualDisk)

func (f *front) snapshots(r *http.Request, c *call, machine reference, body any, fit deltaOf) reference {
	on := *c
	on.this = machine // the task is the machine's, also where the call is for a snapshot
	return f.submit(&on, func(*simulator.Task) outcome {
		turn := f.disks.turn(machine)
		turn.Lock()
		defer turn.Unlock()
		end := f.asPart(r, &on, body)
		if vm, ok := f.service.Context.Map.Get(machine).(*simulator.VirtualMachine); ok && end.fault == nil {
			f.fitDisks(vm, fit)
		}
		return end
	})
}

// fitDisks changes the disks that snapshots are made of. Others may be reading those that the machine has now.
func (f *front) fitDisks(vm *simulator.VirtualMachine, fit deltaOf) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() {
		var devices types.ArrayOfVirtualDevice
		duplicate(types.ArrayOfVirtualDevice{VirtualDevice: vm.Config.Hardware.Device}, &devices)
		for _, disk := range disksOf(devices.VirtualDevice) {
			if backing, ok := backingOf(disk); ok && !strings.HasPrefix(backing.DiskMode, "independent") {
				fit(vm, disk)
			}
		}
		ctx.Update(vm, []types.PropertyChange{
			{Name: "config.hardware.device", Val: devices.VirtualDevice},
			{Name: "config.changeVersion", Val: time.Now().Format(time.RFC3339Nano)},
		})
	})
}

// addDelta has a disk go on in a new file.
func (f *front) addDelta(vm *simulator.VirtualMachine, disk *types.VirtualDisk) {
	base, _ := backingOf(disk)
	file, ok := f.fileAt(vm.Self, base.FileName)
	if !ok {
		return
	}
	_, _ = f.identifyAs(file, base.Uuid)
	delta := *base
	stem := strings.TrimSuffix(base.FileName, ".vmdk")
	if at := strings.LastIndex(stem, "-"); base.Parent != nil && at > 0 {
		stem = stem[:at] // that of the base
	}
	for number := 1; ; number++ {
		delta.FileName = fmt.Sprintf("%s-%06d.vmdk", stem, number)
		made, _ := f.fileAt(vm.Self, delta.FileName)
		if made.exists() {
			continue
		}
		_ = made.describeDelta(file)
		break
	}
	delta.Parent = base
	disk.Backing = &delta
}

// describeDelta writes the files of a delta, which has the size and UUID of its base.
func (d diskFile) describeDelta(base diskFile) error {
	text, err := os.ReadFile(base.path)
	if err != nil {
		return err
	}
	data := filepath.Base(d.stem()) + "-delta.vmdk"
	lines := []string{}
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		words := strings.SplitN(line, " ", 3)
		switch {
		case words[0] == "RW" && len(words) == 3:
			lines = append(lines, fmt.Sprintf("RW %s VMFSSPARSE %q", words[1], data))
		case !strings.HasPrefix(line, "parentFileNameHint"):
			lines = append(lines, line)
		}
	}
	lines = append(lines, fmt.Sprintf("parentFileNameHint=%q", filepath.Base(base.path)))
	if err := os.WriteFile(d.stem()+"-delta.vmdk", nil, 0o600); err != nil {
		return err
	}
	return os.WriteFile(d.path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// mergeDeltas has a disk go on in the file from before the snapshots that were removed.
func (f *front) mergeDeltas(vm *simulator.VirtualMachine, disk *types.VirtualDisk) {
	kept := depth(vm.Snapshot)
	for backing, _ := backingOf(disk); backing.Parent != nil && f.deltas(vm.Self, backing) > kept; backing = backing.Parent {
		if file, ok := f.fileAt(vm.Self, backing.FileName); ok {
			file.delete()
		}
		disk.Backing = backing.Parent
	}
}

// deltas is how many of a disk's files are those of snapshots. What lies in another folder is that of the machine which this
// one is a linked clone of.
func (f *front) deltas(machine reference, backing *types.VirtualDiskFlatVer2BackingInfo) int {
	count := 0
	for ; backing.Parent != nil; backing = backing.Parent {
		file, _ := f.fileAt(machine, backing.FileName)
		if parent, _ := f.fileAt(machine, backing.Parent.FileName); filepath.Dir(file.path) != filepath.Dir(parent.path) {
			return count
		}
		count++
	}
	return count
}

// depth is how many snapshots a machine is made of.
func depth(snapshots *types.VirtualMachineSnapshotInfo) int {
	if snapshots == nil || snapshots.CurrentSnapshot == nil {
		return 0
	}
	return depthOf(snapshots.RootSnapshotList, *snapshots.CurrentSnapshot)
}

func depthOf(tree []types.VirtualMachineSnapshotTree, snapshot reference) int {
	for _, node := range tree {
		if node.Snapshot == snapshot {
			return 1
		}
		if below := depthOf(node.ChildSnapshotList, snapshot); below > 0 {
			return below + 1
		}
	}
	return 0
}

// isInSnapshot tells whether a snapshot of the machine needs a disk.
func (f *front) isInSnapshot(vm *simulator.VirtualMachine, disk *types.VirtualDisk) bool {
	backing, ok := backingOf(disk)
	return ok && vm.Snapshot != nil && f.deltas(vm.Self, backing) > 0
}
