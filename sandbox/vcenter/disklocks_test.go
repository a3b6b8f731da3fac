package vcenter

import (
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

// existing is a disk to be attached.
func (s *site) existing(machine *object.VirtualMachine, file string) *types.VirtualDisk {
	s.Helper()
	return s.newDisk(machine, file, 0)
}

func TestADiskOfARunningMachineIsLocked(t *testing.T) {
	s := newSite(t)
	one, two, running := s.machine("one"), s.machine("two"), s.machine("running")
	file := s.data(one, "data")
	s.done(s.change(two, add, "", s.existing(two, file)))
	s.on(one)
	s.on(running)
	s.want("FileLocked", s.end(s.power(two)))
	s.want("FileLocked", s.end(s.attach(running, file)))

	s.off(one)
	s.on(two)
	s.want("FileLocked", s.end(s.power(one)))
	s.done(s.change(two, remove, "", s.disk(two, file)))
	s.on(one)
	s.want("FileLocked", s.end(s.attach(running, file)))
	s.done(s.change(one, remove, "", s.disk(one, file)))
	s.done(s.attach(running, file))
}

func (s *site) power(machine *object.VirtualMachine) (*object.Task, error) {
	return machine.PowerOn(s.Context())
}

func (s *site) attach(machine *object.VirtualMachine, file string) (*object.Task, error) {
	return s.change(machine, add, "", s.existing(machine, file))
}

func TestOfTwoMachinesThatAreStartedTogetherOneGetsTheDisk(t *testing.T) {
	s := newSite(t)
	one, two := s.machine("one"), s.machine("two")
	file := s.data(one, "data")
	s.done(s.attach(two, file))
	for range 5 {
		first, err := one.PowerOn(t.Context())
		s.must(err)
		second, err := two.PowerOn(t.Context())
		s.must(err)
		ends := map[string]int{s.end(first, nil): 1}
		ends[s.end(second, nil)]++
		if ends[""] != 1 || ends["FileLocked"] != 1 {
			t.Fatal(ends)
		}
		for _, machine := range []*object.VirtualMachine{one, two} {
			off, err := machine.PowerOff(t.Context())
			s.must(err)
			s.end(off, nil)
		}
	}
}

func TestALockedFileCanNotBeDeletedMovedOrExtended(t *testing.T) {
	s := newSite(t)
	machine := s.machine("owner")
	file := s.data(machine, "data")
	files, disks := object.NewFileManager(s.client.Client), object.NewVirtualDiskManager(s.client.Client)
	try := map[string]func() (*object.Task, error){
		"delete disk": func() (*object.Task, error) { return disks.DeleteVirtualDisk(t.Context(), file, s.datacenter) },
		"delete file": func() (*object.Task, error) { return files.DeleteDatastoreFile(t.Context(), file, s.datacenter) },
		"delete data": func() (*object.Task, error) {
			return files.DeleteDatastoreFile(t.Context(), "[LocalDS_0] drover/data-flat.vmdk", s.datacenter)
		},
		"delete folder": func() (*object.Task, error) {
			return files.DeleteDatastoreFile(t.Context(), "[LocalDS_0] drover", s.datacenter)
		},
		"extend": func() (*object.Task, error) {
			return disks.ExtendVirtualDisk(t.Context(), file, s.datacenter, 1<<21, nil)
		},
		"move": func() (*object.Task, error) {
			return disks.MoveVirtualDisk(t.Context(), file, s.datacenter, "[LocalDS_0] drover/moved.vmdk", s.datacenter, false)
		},
	}
	s.on(machine)
	for what, submit := range try {
		if end := s.end(submit()); end != "FileLocked" {
			t.Errorf("%s: %q", what, end)
		}
	}
	s.assertExist(true, file, "[LocalDS_0] drover/data-flat.vmdk")
	s.off(machine)
	s.done(try["delete disk"]())
	s.assertExist(false, file)
}

func TestDestroyLeavesADiskThatARunningMachineHas(t *testing.T) {
	s := newSite(t)
	one, two := s.machine("one"), s.machine("two")
	file := s.data(one, "data")
	s.done(s.attach(two, file))
	s.on(one)
	s.done(two.Destroy(t.Context()))
	s.assertExist(true, file, "[LocalDS_0] drover/data-flat.vmdk")
}
