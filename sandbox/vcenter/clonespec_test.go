package vcenter

import (
	"slices"
	"testing"

	"github.com/vmware/govmomi/vim25/types"
)

func configured(config types.VirtualMachineConfigSpec) types.VirtualMachineCloneSpec {
	return types.VirtualMachineCloneSpec{Config: &config}
}

func TestATemplatesDiskGrowsAtTheClone(t *testing.T) {
	s := newSite(t)
	was := s.first(s.template)
	grow := func(kilobytes int64) types.VirtualMachineCloneSpec {
		disk := s.first(s.template)
		disk.CapacityInKB = kilobytes
		return configured(changing(edit, "", disk))
	}
	bare := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: was.Key}, CapacityInKB: 4 * was.CapacityInKB}
	for name, want := range map[string]struct {
		spec      types.VirtualMachineCloneSpec
		kilobytes int64
	}{
		"same": {grow(was.CapacityInKB), was.CapacityInKB}, "twice": {grow(2 * was.CapacityInKB), 2 * was.CapacityInKB},
		"bare": {configured(changing(edit, "", bare)), 4 * was.CapacityInKB},
	} {
		made := s.first(s.clone(name, want.spec))
		if made.CapacityInKB != want.kilobytes || made.CapacityInBytes != want.kilobytes*1024 || backing(made).FileName == backing(was).FileName {
			t.Fatalf("%s: %+v", name, made)
		}
		file, _ := s.front.fileAt(s.datacenter.Reference(), backing(made).FileName)
		if identity, err := file.identity(); err != nil || identity.capacity != want.kilobytes*1024 {
			t.Fatalf("%s: %+v, %v", name, identity, err)
		}
	}
	s.want("InvalidDeviceOperation", s.end(s.cloning("less", grow(was.CapacityInKB/2))))
	if now := s.first(s.template); now.CapacityInKB != was.CapacityInKB {
		t.Fatalf("%+v", now)
	}
}

func TestADataDiskIsMadeAtTheClone(t *testing.T) {
	s := newSite(t)
	file := "[LocalDS_0] drover/uid/0-data.vmdk"
	adding := func(file string, key int32) types.VirtualMachineCloneSpec {
		disk := s.newDisk(s.template, file, 1<<20)
		disk.Key = key
		return configured(changing(add, createFile, disk))
	}
	s.want("FileNotFound", s.end(s.cloning("early", adding(file, -1))))
	s.directory("drover/uid")
	machine := s.clone("made", adding(file, -1))
	if disk := s.disk(machine, file); disk.Key < 0 || disk.CapacityInKB != 1<<20 || backing(disk).Uuid == "" {
		t.Fatalf("%+v", disk)
	}
	s.want("FileAlreadyExists", s.end(s.cloning("late", adding(file, -1))))
	if found, err := s.folder.Children(t.Context()); err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	s.assertExist(false, "[LocalDS_0] early", "[LocalDS_0] late")

	for fault, change := range map[string]func(*types.VirtualDisk){
		"InvalidController": func(disk *types.VirtualDisk) { disk.ControllerKey = 4711 },
		"InvalidDeviceSpec": func(disk *types.VirtualDisk) { disk.UnitNumber = s.first(s.template).UnitNumber },
	} {
		disk := s.newDisk(s.template, "[LocalDS_0] drover/uid/1-data.vmdk", 1<<20)
		change(disk)
		s.want(fault, s.end(s.cloning("none", configured(changing(add, createFile, disk)))))
		s.want(fault, s.end(s.change(machine, add, createFile, disk)))
	}
	s.assertExist(false, "[LocalDS_0] drover/uid/1-data.vmdk", "[LocalDS_0] none")
	in := types.VirtualMachineCloneSpec{}
	in.Location.DeviceChange = changing(remove, "", &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: 4711}}).DeviceChange
	s.want("InvalidDeviceSpec", s.end(s.cloning("none", in)))
}

func TestACloneWithADiskThatRunsElsewhereStaysOff(t *testing.T) {
	s := newSite(t)
	owner := s.machine("owner")
	file := s.data(owner, "data")
	s.on(owner)
	spec := configured(changing(add, "", s.existing(s.template, file)))
	spec.PowerOn = true
	s.want("FileLocked", s.end(s.cloning("second", spec)))
	if disk := s.disk(s.found("second"), file); disk.CapacityInKB != 1<<20 || backing(disk).Uuid != backing(s.disk(owner, file)).Uuid {
		t.Fatalf("%+v", disk)
	}
	s.want("FileNotFound", s.end(s.cloning("third", configured(changing(add, "", s.existing(s.template, "[LocalDS_0] drover/none.vmdk"))))))
}

func customized(addresses ...types.CustomizationAdapterMapping) *types.CustomizationSpec {
	return &types.CustomizationSpec{
		Identity:      &types.CustomizationLinuxPrep{HostName: &types.CustomizationFixedName{Name: "web-0"}, Domain: "example.com"},
		NicSettingMap: addresses,
	}
}

func fixed(mac, address string) types.CustomizationAdapterMapping {
	ip := &types.CustomizationFixedIp{IpAddress: address}
	return types.CustomizationAdapterMapping{MacAddress: mac, Adapter: types.CustomizationIPSettings{Ip: ip, SubnetMask: "255.255.255.0"}}
}

// card is another network card for a machine, with this address.
func (s *site) card(key int32, mac string) *types.VirtualE1000 {
	s.Helper()
	own := s.devices(s.template).SelectByType((*types.VirtualEthernetCard)(nil))[0].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	card := &types.VirtualE1000{}
	card.Key, card.Backing, card.MacAddress = key, own.Backing, mac
	if mac != "" {
		card.AddressType = string(types.VirtualEthernetCardMacTypeManual)
	}
	return card
}

func addressOf(guest *types.GuestInfo, mac string) []string {
	at := slices.IndexFunc(guest.Net, func(nic types.GuestNicInfo) bool { return nic.MacAddress == mac })
	if at < 0 {
		return nil
	}
	return guest.Net[at].IpAddress
}

func TestACloneIsCustomized(t *testing.T) {
	s := newSite(t)
	s.want("NicSettingMismatch", s.end(s.cloning("none", types.VirtualMachineCloneSpec{
		Customization: customized(fixed("", "198.18.0.1"), fixed("", "198.18.0.2")),
	})))
	s.assertExist(false, "[LocalDS_0] none")

	one := s.clone("one", types.VirtualMachineCloneSpec{Customization: customized(fixed("", "198.18.0.3")), PowerOn: true})
	if guest := s.properties(one).Guest; guest.IpAddress != "198.18.0.3" || guest.HostName != "web-0" || len(guest.Net) != 1 {
		t.Fatalf("%+v", guest)
	}

	first, second := "00:50:56:00:00:0a", "00:50:56:00:00:0b"
	spec := configured(changing(edit, "", s.card(s.devices(s.template).SelectByType((*types.VirtualEthernetCard)(nil))[0].GetVirtualDevice().Key, first)))
	spec.Config.DeviceChange = append(spec.Config.DeviceChange, changing(add, "", s.card(-5, second)).DeviceChange...)
	spec.Customization = customized(fixed(second, "198.18.0.5"), fixed(first, "198.18.0.4"))
	two := s.clone("two", spec)
	s.on(two)
	guest := s.properties(two).Guest
	if got := addressOf(guest, first); !slices.Equal(got, []string{"198.18.0.4"}) || guest.IpAddress != "198.18.0.4" {
		t.Fatalf("%+v", guest)
	}
	if got := addressOf(guest, second); !slices.Equal(got, []string{"198.18.0.5"}) {
		t.Fatalf("%+v", guest)
	}
	stranger := spec
	stranger.Customization = customized(fixed(second, "198.18.0.5"), fixed("00:50:56:00:00:0c", "198.18.0.4"))
	s.want("NicSettingMismatch", s.end(s.cloning("three", stranger)))
}

func TestAMachineIsCustomizedByAddress(t *testing.T) {
	s := newSite(t)
	machine := s.machine("one")
	second := "00:50:56:00:00:0b"
	s.done(s.change(machine, add, "", s.card(-5, second)))
	first := s.devices(machine).SelectByType((*types.VirtualEthernetCard)(nil))[0].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress
	s.done(machine.Customize(t.Context(), *customized(fixed(second, "198.18.0.7"), fixed(first, "198.18.0.6"))))
	s.on(machine)
	if guest := s.properties(machine).Guest; !slices.Equal(addressOf(guest, second), []string{"198.18.0.7"}) || guest.IpAddress != "198.18.0.6" {
		t.Fatalf("%+v", guest)
	}
}

func TestAMachineThatIsMadeWithADiskOfAnotherIsLockedOutToo(t *testing.T) {
	s := newSite(t)
	owner := s.machine("owner")
	file := s.data(owner, "data")
	s.on(owner)
	controller := &types.ParaVirtualSCSIController{}
	controller.Key, controller.SharedBus = -1, types.VirtualSCSISharingNoSharing
	disk := s.newDisk(s.template, file, 0)
	disk.Key, disk.ControllerKey = -2, -1
	spec := changing(add, "", controller)
	spec.DeviceChange = append(spec.DeviceChange, changing(add, "", disk).DeviceChange...)
	spec.Name, spec.Files = "new", &types.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"}
	s.done(s.folder.CreateVM(t.Context(), spec, s.pool, nil))
	made := s.found("new")
	if seen := s.disk(made, file); backing(seen).Uuid != backing(s.disk(owner, file)).Uuid || seen.CapacityInKB != 1<<20 {
		t.Fatalf("%+v", seen)
	}
	s.want("FileLocked", s.end(s.power(made)))
}
