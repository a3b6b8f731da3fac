package vcenter

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"
)

func TestADiskGrowsAlsoWhileTheMachineRunsAndItsFileRemembers(t *testing.T) {
	s := newSite(t)
	machine, other := s.machine("grown"), s.machine("other")
	file := s.data(machine, "data")
	made := s.disk(machine, file)
	s.on(machine)
	grow := func(kilobytes, bytes int64) string {
		disk := s.disk(machine, file)
		disk.CapacityInKB, disk.CapacityInBytes = kilobytes, bytes
		return s.end(s.change(machine, edit, "", disk))
	}
	for _, step := range []struct {
		kilobytes, bytes int64 // that are asked for
		fault            string
		after            int64 // in kilobytes
	}{
		{1 << 21, 0, "", 1 << 21},
		{1 << 21, 1 << 32, "", 1 << 22},
		{1 << 23, 1 << 32, "", 1 << 23},
		{1 << 24, 1 << 34, "", 1 << 24},
		{0, 0, "", 1 << 24},
		{1 << 23, 0, "InvalidDeviceOperation", 1 << 24},
		{0, 1 << 30, "InvalidDeviceOperation", 1 << 24},
		{1 << 25, 1 << 36, "InvalidDeviceOperation", 1 << 24},
	} {
		s.want(step.fault, grow(step.kilobytes, step.bytes))
		if disk := s.disk(machine, file); disk.CapacityInKB != step.after || disk.CapacityInBytes != step.after*1024 || backing(disk).Uuid != backing(made).Uuid {
			t.Fatalf("%+v, %+v", step, disk)
		}
	}
	// Only the key and the size.
	bare := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: made.Key}, CapacityInKB: 1 << 25}
	s.done(s.change(machine, edit, "", bare))
	if disk := s.disk(machine, file); disk.ControllerKey != made.ControllerKey || *disk.UnitNumber != *made.UnitNumber {
		t.Fatalf("%+v", disk)
	}
	s.done(s.change(machine, remove, "", s.disk(machine, file)))
	s.done(s.attach(other, file))
	if disk := s.disk(other, file); disk.CapacityInKB != 1<<25 {
		t.Fatalf("%+v", disk)
	}
}
