package vcenter

import (
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// arrange puts the settings of a customization into the order of the cards, which is the only one that vcsim knows, and
// refuses settings for other cards than there are.
func arrange(settings []types.CustomizationAdapterMapping, cards []string) ([]types.CustomizationAdapterMapping, types.BaseMethodFault) {
	mismatch := &types.NicSettingMismatch{NumberOfNicsInSpec: int32(len(settings)), NumberOfNicsInVM: int32(len(cards))}
	if len(settings) != len(cards) {
		return nil, mismatch
	}
	arranged := make([]*types.CustomizationAdapterMapping, len(cards))
	for _, setting := range settings {
		if setting.MacAddress == "" {
			continue
		}
		isIt := func(mac string) bool { return strings.EqualFold(mac, setting.MacAddress) }
		at := slices.IndexFunc(cards, isIt)
		if at < 0 || arranged[at] != nil {
			return nil, mismatch
		}
		setting.MacAddress = "" // vcsim would give it to the card
		arranged[at] = &setting
	}
	for _, setting := range settings {
		if setting.MacAddress == "" {
			// There are as many of both.
			arranged[slices.Index(arranged, nil)] = &setting
		}
	}
	ordered := make([]types.CustomizationAdapterMapping, 0, len(arranged))
	for _, setting := range arranged {
		ordered = append(ordered, *setting)
	}
	return ordered, nil
}

// cardsOf are the addresses of the network cards among devices that are added.
func cardsOf(added []types.BaseVirtualDeviceConfigSpec) []string {
	var cards []string
	for _, change := range added {
		if card, ok := change.GetVirtualDeviceConfigSpec().Device.(types.BaseVirtualEthernetCard); ok {
			cards = append(cards, card.GetVirtualEthernetCard().MacAddress)
		}
	}
	return cards
}

// checkCustomization arranges what a clone is customized with.
func checkCustomization(spec *types.CustomizationSpec, devices []types.BaseVirtualDeviceConfigSpec) (fault types.BaseMethodFault) {
	if spec == nil {
		return nil
	}
	spec.NicSettingMap, fault = arrange(spec.NicSettingMap, cardsOf(devices))
	return fault
}

// customizeClone has a clone that was made be customized when it is powered on first.
func (f *front) customizeClone(machine reference, spec *types.CustomizationSpec) types.BaseMethodFault {
	if spec == nil {
		return nil
	}
	return f.part(machine, func(ctx context.Context) (reference, error) {
		response, err := methods.CustomizeVM_Task(ctx, f.service, &types.CustomizeVM_Task{This: machine, Spec: *spec})
		if err != nil {
			return reference{}, err
		}
		return response.Returnval, nil
	}).fault
}

// checkCustomize arranges what a machine is customized with, and refuses what doesn't fit its cards. vcsim knows the cards
// in the order of what the guest says.
func (f *front) checkCustomize(c *call, call any) types.BaseMethodFault {
	request, ok := call.(*types.CustomizeVM_Task)
	if !ok {
		return nil
	}
	vm, ok := f.service.Context.Map.Get(c.this).(*simulator.VirtualMachine)
	if !ok {
		return nil
	}
	var cards []string
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() {
		for _, nic := range vm.Guest.Net {
			cards = append(cards, nic.MacAddress)
		}
	})
	arranged, fault := arrange(request.Spec.NicSettingMap, cards)
	if fault != nil {
		return fault
	}
	request.Spec.NicSettingMap = arranged
	c.body = encoded(methods.CustomizeVM_TaskBody{Req: request})
	return nil
}
