package vcenter

import (
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

func (s *site) firstCard(machine *object.VirtualMachine) *types.VirtualEthernetCard {
	s.Helper()
	return s.devices(machine).SelectByType((*types.VirtualEthernetCard)(nil))[0].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
}

func TestAManualAddressIsInVMwaresRange(t *testing.T) {
	s := newSite(t)
	machine := s.machine("one")
	key := s.firstCard(s.template).Key
	for mac, fault := range map[string]string{
		"00:50:56:00:00:00": "", "00:50:56:3f:ff:ff": "", "00:50:56:3F:FF:FE": "",
		"00:50:56:40:00:00": "InvalidDeviceSpec", "00:50:56:80:00:00": "InvalidDeviceSpec", "00:0c:29:00:00:00": "InvalidDeviceSpec",
		"02:00:00:00:00:00": "InvalidDeviceSpec", "nonsense": "InvalidDeviceSpec", "00:50:56:00:00": "InvalidDeviceSpec",
	} {
		for _, kind := range []types.VirtualEthernetCardMacType{types.VirtualEthernetCardMacTypeManual, ""} {
			card := func(key int32) *types.VirtualE1000 {
				card := s.card(key, mac)
				card.AddressType = string(kind)
				return card
			}
			if end := s.end(s.cloning("clone "+mac+string(kind), configured(changing(edit, "", card(key))))); end != fault {
				t.Errorf("clone with %s: %q", mac, end)
			}
			if end := s.end(s.change(machine, add, "", card(-5))); end != fault {
				t.Errorf("add of %s: %q", mac, end)
			}
		}
	}
	// What vCenter gave a card, the card keeps.
	own := s.firstCard(machine)
	unchanged := s.card(own.Key, own.MacAddress)
	unchanged.AddressType = own.AddressType
	s.done(s.change(machine, edit, "", unchanged))
	if now := s.firstCard(machine); now.MacAddress == "" {
		t.Fatalf("%+v", now)
	}
}

func TestAGeneratedAddressIsTheClonesOwn(t *testing.T) {
	s := newSite(t)
	template := s.firstCard(s.template)
	seen := map[string]bool{template.MacAddress: true}
	for i, kind := range []types.VirtualEthernetCardMacType{types.VirtualEthernetCardMacTypeGenerated, types.VirtualEthernetCardMacTypeAssigned} {
		for _, mac := range []string{"", template.MacAddress} {
			card := s.card(template.Key, mac)
			card.AddressType = string(kind)
			made := s.clone(string(rune('a'+i))+mac, configured(changing(edit, "", card)))
			if now := s.firstCard(made).MacAddress; now == "" || seen[now] {
				t.Fatalf("%s %s: %s", kind, mac, now)
			} else {
				seen[now] = true
			}
		}
	}
}
