package vcenter

import (
	"testing"

	vimfault "github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

func TestDisksAndFilesNeedTheirPrivileges(t *testing.T) {
	s := newSite(t)
	machine := s.machine("one")
	file, spare := s.data(machine, "data"), s.data(machine, "spare")
	s.done(s.change(machine, remove, "", s.disk(machine, spare)))
	changed := func(op operation, with fileOperation, device types.BaseVirtualDevice) func() error {
		return func() error { _, err := s.change(machine, op, with, device); return err }
	}
	cloned := func(spec types.VirtualMachineCloneSpec) func() error {
		return func() error { _, err := s.cloning("two", spec); return err }
	}
	made := s.newDisk(machine, "[LocalDS_0] drover/made.vmdk", 1024)
	grown, same := s.disk(machine, file), s.disk(machine, file)
	grown.CapacityInKB *= 2
	bootGrown := s.first(s.template)
	bootGrown.CapacityInKB *= 2
	controller := &types.ParaVirtualSCSIController{}
	controller.Key = -7
	ctx, files, disks := t.Context(), object.NewFileManager(s.client.Client), object.NewVirtualDiskManager(s.client.Client)
	browser, err := s.datastore.Browser(ctx)
	s.must(err)
	host := "Datastore.FileManagement"
	for _, try := range []struct {
		privilege, on string
		call          func() error
	}{
		{"VirtualMachine.Config.AddNewDisk", "VirtualMachine", changed(add, createFile, made)},
		{"Datastore.AllocateSpace", "Datastore", changed(add, createFile, made)},
		{"VirtualMachine.Config.AddExistingDisk", "VirtualMachine", changed(add, "", s.existing(machine, spare))},
		{"VirtualMachine.Config.RemoveDisk", "VirtualMachine", changed(remove, "", grown)},
		{"VirtualMachine.Config.DiskExtend", "VirtualMachine", changed(edit, "", grown)},
		{"VirtualMachine.Config.EditDevice", "VirtualMachine", changed(edit, "", same)},
		{"VirtualMachine.Config.AddRemoveDevice", "VirtualMachine", changed(add, "", controller)},
		{"VirtualMachine.Config.AddRemoveDevice", "VirtualMachine", changed(add, "", s.card(-5, ""))},
		{"VirtualMachine.Config.EditDevice", "VirtualMachine", changed(edit, "", s.card(s.firstCard(machine).Key, ""))},
		{"VirtualMachine.Config.DiskExtend", "Folder", cloned(configured(changing(edit, "", bootGrown)))},
		{"Datastore.AllocateSpace", "Datastore", cloned(configured(changing(add, createFile, made)))},
		{"VirtualMachine.Config.AddExistingDisk", "Folder", cloned(configured(changing(add, "", s.existing(s.template, spare))))},
		{"VirtualMachine.Provisioning.Customize", "VirtualMachine", cloned(types.VirtualMachineCloneSpec{Customization: customized(fixed("", "198.18.0.1"))})},
		{"VirtualMachine.Provisioning.Customize", "VirtualMachine", func() error {
			_, err := machine.Customize(ctx, *customized(fixed("", "198.18.0.1")))
			return err
		}},
		{host, "Datastore", func() error { return files.MakeDirectory(ctx, "[LocalDS_0] new", s.datacenter, false) }},
		{host, "Datastore", func() error { _, err := files.DeleteDatastoreFile(ctx, spare, s.datacenter); return err }},
		{host, "Datastore", func() error { _, err := disks.DeleteVirtualDisk(ctx, spare, s.datacenter); return err }},
		{host, "Datastore", func() error {
			_, err := disks.MoveVirtualDisk(ctx, spare, s.datacenter, "[LocalDS_0] drover/moved.vmdk", s.datacenter, false)
			return err
		}},
		{host, "Datastore", func() error {
			_, err := files.MoveDatastoreFile(ctx, spare, s.datacenter, "[LocalDS_0] drover/moved.vmdk", s.datacenter, false)
			return err
		}},
		{"Datastore.Browse", "Datastore", func() error {
			_, err := browser.SearchDatastore(ctx, "[LocalDS_0] drover", &types.HostDatastoreBrowserSearchSpec{})
			return err
		}},
	} {
		s.front.privileges.set([]string{try.privilege})
		var refused *types.NoPermission
		err := try.call()
		if _, is := vimfault.As(err, &refused); !is || refused.PrivilegeId != try.privilege || refused.Object == nil || refused.Object.Type != try.on {
			t.Errorf("%s on %s: %v, %+v", try.privilege, try.on, err, refused)
		}
	}
	s.front.privileges.set([]string{"VirtualMachine.Config.AddExistingDisk", "VirtualMachine.Config.EditDevice", "VirtualMachine.Config.AddRemoveDevice", "Datastore.Browse", host})
	s.done(s.change(machine, add, createFile, made))
	s.done(s.change(machine, edit, "", grown))
	s.done(s.change(machine, remove, "", grown))
}
