package vcenter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// cloneRequest is what makes a clone of a machine: all that the source has, but for what is a machine's own, and what the
// spec says. vcsim's own clones have neither the source's extraConfig nor a MAC address of their own.
func (f *front) cloneRequest(source *simulator.VirtualMachine, request *types.CloneVM_Task) (*types.CreateVM_Task, types.BaseMethodFault) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	location := request.Spec.Location
	var config types.VirtualMachineConfigSpec
	var files object.DatastorePath
	create := &types.CreateVM_Task{This: request.Folder, Host: location.Host}
	pool := location.Pool
	ctx.WithLock(source, func() {
		duplicate(source.Config.ToConfigSpec(), &config)
		files.FromString(source.Config.Files.VmPathName)
		if pool == nil && !source.Config.Template {
			pool = source.ResourcePool
		}
		if create.Host == nil {
			create.Host = source.Runtime.Host
		}
	})
	if pool == nil {
		return nil, &types.InvalidArgument{InvalidProperty: "spec.location.pool"}
	}
	if create.Host == nil || ctx.Map.Get(*create.Host) == nil {
		return nil, &types.HostNotConnected{}
	}
	create.Pool = *pool
	if location.Datastore != nil {
		if datastore, ok := ctx.Map.Get(*location.Datastore).(*simulator.Datastore); ok {
			files.Datastore = datastore.Name
		}
	}
	devices, fault := cloneDevices(config.DeviceChange, location.DeviceChange, request.Spec.Config)
	if fault != nil {
		return nil, fault
	}
	if fault := provision(devices, location.Disk); fault != nil {
		return nil, fault
	}
	if fault := f.checkNetworks(request.Folder, devices); fault != nil {
		return nil, fault
	}
	if fault := f.completeDisks(request.Folder, devices); fault != nil {
		return nil, fault
	}
	if fault := checkCustomization(request.Spec.Customization, devices); fault != nil {
		return nil, fault
	}
	config.DeviceChange = devices
	own(&config)
	if spec := request.Spec.Config; spec != nil {
		override(&config, spec)
	}
	config.Name = request.Name
	config.Files = &types.VirtualMachineFileInfo{
		VmPathName: (&object.DatastorePath{Datastore: files.Datastore, Path: request.Name}).String(),
	}
	f.giveUUIDs(&config)
	create.Config = config
	return create, checkCores(config.NumCPUs, config.NumCoresPerSocket)
}

// duplicate copies what must not be shared.
func duplicate(from, to any) {
	encoded, err := xml.Marshal(from)
	if err != nil {
		panic(err) // vcsim's objects are made to be encoded
	}
	decoder := xml.NewDecoder(bytes.NewReader(encoded))
	decoder.TypeFunc = typeOf
	if err := decoder.Decode(to); err != nil {
		panic(err)
	}
}

// own clears what belongs to the source alone.
func own(config *types.VirtualMachineConfigSpec) {
	config.ChangeVersion, config.CreateDate = "", nil
	config.Uuid, config.InstanceUuid = "", ""
	config.NpivNodeWorldWideName, config.NpivPortWorldWideName, config.NpivWorldWideNameType = nil, nil, ""
}

// override has the clone's spec say what it says, and the source the rest.
func override(config, spec *types.VirtualMachineConfigSpec) {
	extra := mergeExtraConfig(config.ExtraConfig, spec.ExtraConfig)
	devices, vApp := config.DeviceChange, config.VAppConfig
	into, from := reflect.ValueOf(config).Elem(), reflect.ValueOf(spec).Elem()
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			into.Field(i).Set(from.Field(i))
		}
	}
	config.ExtraConfig, config.DeviceChange = extra, devices
	switch {
	case spec.VAppConfigRemoved != nil && *spec.VAppConfigRemoved:
		config.VAppConfig, config.VAppConfigRemoved = nil, nil
	case spec.VAppConfig == nil:
		config.VAppConfig = vApp
	}
}

// mergeExtraConfig adds to what is there; an empty value takes a key away.
func mergeExtraConfig(there, changes []types.BaseOptionValue) []types.BaseOptionValue {
	merged := slices.Clone(there)
	for _, change := range changes {
		value := change.GetOptionValue()
		merged = slices.DeleteFunc(merged, func(o types.BaseOptionValue) bool { return o.GetOptionValue().Key == value.Key })
		if value.Value != "" {
			merged = append(merged, change)
		}
	}
	return merged
}

// giveUUIDs gives a new machine the UUIDs that its spec names, and new ones else. An instanceUuid that another machine has
// is replaced, as vCenter does.
func (f *front) giveUUIDs(config *types.VirtualMachineConfigSpec) {
	if config.Uuid == "" {
		config.Uuid = uuid.NewString()
	}
	if config.InstanceUuid == "" || f.hasInstance(config.InstanceUuid) {
		config.InstanceUuid = uuid.NewString()
	}
}

func (f *front) hasInstance(id string) bool {
	return slices.ContainsFunc(f.machines(), func(vm *simulator.VirtualMachine) bool {
		return vm.Config != nil && vm.Config.InstanceUuid == id
	})
}

// checkCores refuses cores that don't divide the CPUs.
func checkCores(cpus int32, cores *int32) types.BaseMethodFault {
	if cores != nil && *cores > 0 && cpus%*cores != 0 {
		return &types.InvalidVmConfig{Property: "configSpec.numCoresPerSocket"}
	}
	return nil
}

// cloneDevices are the devices of a clone: the source's, with the changes of its location and of its config.
func cloneDevices(source, location []types.BaseVirtualDeviceConfigSpec, config *types.VirtualMachineConfigSpec) ([]types.BaseVirtualDeviceConfigSpec, types.BaseMethodFault) {
	var list object.VirtualDeviceList
	for _, change := range source {
		list = append(list, change.GetVirtualDeviceConfigSpec().Device)
	}
	var devices []*types.VirtualDeviceConfigSpec
	taken := map[string]bool{} // the source's addresses
	for _, device := range list {
		if card, ok := device.(types.BaseVirtualEthernetCard); ok {
			taken[card.GetVirtualEthernetCard().MacAddress] = true
		}
		// vcsim gives every machine these.
		if object.VirtualDeviceList(esx.VirtualDevice).Find(list.Name(device)) == nil {
			devices = append(devices, copyOf(device))
		}
	}
	changes := slices.Clone(location)
	if config != nil {
		changes = append(changes, config.DeviceChange...)
	}
	if fault := checkAddresses(changes, nil); fault != nil {
		return nil, fault
	}
	for i, change := range changes {
		var fault types.BaseMethodFault
		if devices, fault = applyDevice(devices, list, change.GetVirtualDeviceConfigSpec(), int32(i)); fault != nil {
			return nil, fault
		}
	}
	all := make([]types.BaseVirtualDeviceConfigSpec, 0, len(devices))
	for _, device := range devices {
		if card, ok := device.Device.(types.BaseVirtualEthernetCard); ok {
			giveAddress(card.GetVirtualEthernetCard(), taken)
		}
		all = append(all, device)
	}
	return all, nil
}

// copyOf adds a device like that of the source: a disk of its own, a card without the source's address.
func copyOf(device types.BaseVirtualDevice) *types.VirtualDeviceConfigSpec {
	spec := &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: device}
	switch device := device.(type) {
	case *types.VirtualDisk:
		spec.FileOperation = types.VirtualDeviceConfigSpecFileOperationCreate
		if backing, ok := device.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			backing.FileName, backing.Parent, backing.Uuid = "", nil, ""
		}
	case types.BaseVirtualEthernetCard:
		card := device.GetVirtualEthernetCard()
		card.MacAddress, card.AddressType, card.ExternalId = "", "", ""
	}
	return spec
}

// applyDevice changes the devices as the spec says, if that can be. An edited device is as the spec has it; where that names
// no place or backing, it keeps its own.
func applyDevice(devices []*types.VirtualDeviceConfigSpec, source object.VirtualDeviceList, change *types.VirtualDeviceConfigSpec, index int32) ([]*types.VirtualDeviceConfigSpec, types.BaseMethodFault) {
	if change.Operation == types.VirtualDeviceConfigSpecOperationAdd {
		return append(devices, change), nil
	}
	key := change.Device.GetVirtualDevice().Key
	at := slices.IndexFunc(devices, func(d *types.VirtualDeviceConfigSpec) bool { return d.Device.GetVirtualDevice().Key == key })
	if at < 0 {
		if source.FindByKey(key) != nil { // one that every machine has
			return devices, nil
		}
		return nil, unknownDevice(index)
	}
	if change.Operation == types.VirtualDeviceConfigSpecOperationRemove {
		return slices.Delete(devices, at, at+1), nil
	}
	old, edited := devices[at].Device.GetVirtualDevice(), change.Device.GetVirtualDevice()
	if edited.Backing == nil {
		edited.Backing = old.Backing
	}
	if edited.ControllerKey == 0 {
		edited.ControllerKey, edited.UnitNumber = old.ControllerKey, old.UnitNumber
	}
	if disk, ok := change.Device.(*types.VirtualDisk); ok {
		was, ok := devices[at].Device.(*types.VirtualDisk)
		if !ok {
			return nil, unknownDevice(index)
		}
		if fault := editDisk(disk, was, index); fault != nil {
			return nil, fault
		}
	}
	devices[at] = &types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: devices[at].FileOperation, Device: change.Device,
	}
	return devices, nil
}

// giveAddress gives a card an address as vCenter makes them, unless the spec names one, which is kept even if another has it.
// One that vCenter made for the source is not: a client may send the source's card as it was.
func giveAddress(card *types.VirtualEthernetCard, taken map[string]bool) {
	if card.MacAddress != "" && (isManual(card) || !taken[card.MacAddress]) {
		if card.AddressType == "" {
			card.AddressType = string(types.VirtualEthernetCardMacTypeManual)
		}
		return
	}
	n := rand.Uint32()
	card.MacAddress = fmt.Sprintf("00:50:56:%02x:%02x:%02x", 0x80|n>>16&0x3f, n>>8&0xff, n&0xff)
	card.AddressType = string(types.VirtualEthernetCardMacTypeAssigned)
}

// checkNetworks refuses a card on a network that isn't there. vcsim crashes on it.
func (f *front) checkNetworks(folder reference, devices []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	networks := f.networksAt(folder)
	for i, change := range devices {
		device := change.GetVirtualDeviceConfigSpec().Device
		if _, ok := device.(types.BaseVirtualEthernetCard); !ok {
			continue
		}
		backing, ok := device.GetVirtualDevice().Backing.(*types.VirtualEthernetCardNetworkBackingInfo)
		if ok && f.service.Context.Map.FindByName(backing.DeviceName, networks) == nil {
			spec := types.InvalidDeviceSpec{DeviceIndex: int32(i)}
			spec.Property = "deviceChange.device.backing"
			return &types.InvalidDeviceBacking{InvalidDeviceSpec: spec}
		}
	}
	return nil
}

// networksAt are the networks of a folder's datacenter.
func (f *front) networksAt(folder reference) []reference {
	for _, ref := range f.ancestors(folder) {
		if datacenter, ok := f.service.Context.Map.Get(ref).(*simulator.Datacenter); ok {
			return datacenter.Network
		}
	}
	return nil
}
