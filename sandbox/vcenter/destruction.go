package vcenter

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// remains are the files of a machine that is destroyed.
type remains struct {
	folder string // that of the machine
	own    []string
	disks  []diskFile // with deltas: of those vcsim deletes not all
	others bool       // files in the folder that aren't the machine's, such as a disk that was detached
}

// destroying destroys a machine as vCenter does: with the files of all its disks, but without those that others have left in
// its folder. vcsim deletes all that is in the folder, and of a disk only the last delta.
func (f *front) destroying(machine reference, destroy func() outcome) outcome {
	vm, ok := f.service.Context.Map.Get(machine).(*simulator.VirtualMachine)
	if !ok {
		return destroy()
	}
	f.leaveLocked(vm)
	remains := f.remainsOf(vm)
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	var logs string
	if remains.others {
		// vcsim deletes this folder, and nothing where it has no name.
		ctx.WithLock(vm, func() { logs, vm.Config.Files.LogDirectory = vm.Config.Files.LogDirectory, "" })
	}
	end := destroy()
	if end.fault != nil {
		if remains.others {
			ctx.WithLock(vm, func() { vm.Config.Files.LogDirectory = logs })
		}
		return end
	}
	for _, disk := range remains.disks {
		disk.delete()
	}
	if remains.others {
		for _, file := range remains.own {
			_ = os.Remove(file)
		}
	}
	return end
}

// destroyMachine is the task of a machine's end.
func (f *front) destroyMachine(r *http.Request, c *call, request *types.Destroy_Task) reference {
	return f.submit(c, func(*simulator.Task) outcome {
		return f.destroying(c.this, func() outcome { return f.asPart(r, c, methods.Destroy_TaskBody{Req: request}) })
	})
}

// needsCare tells whether vcsim would not destroy a machine as vCenter does.
func (f *front) needsCare(machine reference) bool {
	vm, ok := f.service.Context.Map.Get(machine).(*simulator.VirtualMachine)
	if !ok {
		return false
	}
	remains := f.remainsOf(vm)
	return remains.others || len(remains.disks) > 0 || f.sharesDisks(machine)
}

// leaveLocked takes from a machine that is destroyed the disks that another runs with: they can't be deleted.
func (f *front) leaveLocked(vm *simulator.VirtualMachine) {
	disks, isOn := f.disksIn(vm)
	if isOn {
		return // it stays
	}
	held := map[types.BaseVirtualDevice]bool{}
	for _, disk := range disks {
		release, fault := f.lock(vm.Self, f.usesOf(vm.Self, []*types.VirtualDisk{disk}))
		if fault != nil {
			held[disk] = true
		} else {
			release()
		}
	}
	if len(held) == 0 {
		return
	}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() {
		isHeld := func(device types.BaseVirtualDevice) bool { return held[device] }
		vm.Config.Hardware.Device = slices.DeleteFunc(slices.Clone(vm.Config.Hardware.Device), isHeld)
	})
}

func (f *front) remainsOf(vm *simulator.VirtualMachine) remains {
	var all remains
	var home string
	chains := map[string]bool{}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() {
		home = vm.Config.Files.VmPathName
		for _, disk := range disksOf(vm.Config.Hardware.Device) {
			chain := f.chain(vm.Self, disk)
			for _, file := range chain {
				chains[file.stem()] = true
				// One in another folder is that of the machine which this one is a linked clone of.
				if len(chain) > 1 && filepath.Dir(file.path) == filepath.Dir(chain[0].path) {
					all.disks = append(all.disks, file)
				}
			}
		}
	})
	file, ok := f.fileAt(vm.Self, home)
	if !ok {
		return all
	}
	all.folder = file.path
	if strings.HasSuffix(home, ".vmx") {
		all.folder = filepath.Dir(file.path)
	}
	entries, err := os.ReadDir(all.folder)
	if err != nil {
		return all
	}
	for _, entry := range entries {
		file := diskFile{path: filepath.Join(all.folder, entry.Name())}
		if strings.HasSuffix(entry.Name(), ".vmdk") && !chains[file.stem()] {
			all.others = true
		} else {
			all.own = append(all.own, file.path)
		}
	}
	return all
}
