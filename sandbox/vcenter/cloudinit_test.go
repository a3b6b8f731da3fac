package vcenter

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

const metadata = `
instance-id: web-0
network:
  version: 2
  ethernets:
    first:
      match: {macaddress: "00:50:56:00:00:0A"}
      set-name: eth0
      addresses: [198.18.0.10/24, "2001:db8::10/64"]
    second:
      match: {macaddress: "00:50:56:00:00:0b"}
      addresses: ["198.18.1.10/16"]
    nobody:
      match: {macaddress: "00:50:56:00:00:0c"}
      addresses: ["198.18.2.10/16"]
`

const asJSON = `{"network": {"version": 2, "ethernets": {"id0": {"match": {"macaddress": "00:50:56:00:00:0a"},
"addresses": ["198.18.0.10/24", "2001:db8::10/64"]}, "id1": {"match": {"macaddress": "00:50:56:00:00:0b"}, "addresses": ["198.18.1.10/16"]}}}}`

func encodedAs(encoding, text string) string {
	switch encoding {
	case "base64":
		return base64.StdEncoding.EncodeToString([]byte(text))
	case "gzip+base64":
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return base64.StdEncoding.EncodeToString(small.Bytes())
	}
	return text
}

// eventually waits for what a guest does by itself.
func (s *site) eventually(machine *object.VirtualMachine, is func(*types.GuestInfo) bool) {
	s.Helper()
	for range 200 {
		if is(s.properties(machine).Guest) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.Fatalf("%+v", s.properties(machine).Guest)
}

func TestAGuestReportsTheAddressesThatCloudInitGivesIt(t *testing.T) {
	s := newSite(t)
	first, second := "00:50:56:00:00:0a", "00:50:56:00:00:0b"
	key := s.devices(s.template).SelectByType((*types.VirtualEthernetCard)(nil))[0].GetVirtualDevice().Key
	for name, text := range map[string]string{"yaml": metadata, "json": asJSON} {
		for _, encoding := range []string{"", "base64", "gzip+base64"} {
			spec := configured(changing(edit, "", s.card(key, first)))
			spec.Config.DeviceChange = append(spec.Config.DeviceChange, changing(add, "", s.card(-5, second)).DeviceChange...)
			spec.Config.ExtraConfig = []types.BaseOptionValue{
				&types.OptionValue{Key: "guestinfo.metadata", Value: encodedAs(encoding, text)},
				&types.OptionValue{Key: "guestinfo.metadata.encoding", Value: encoding},
			}
			machine := s.clone(name+encoding, spec)
			if guest := s.properties(machine).Guest; guest.IpAddress != "" {
				t.Fatalf("%+v", guest)
			}
			s.on(machine)
			s.eventually(machine, func(guest *types.GuestInfo) bool {
				return guest.IpAddress == "198.18.0.10" && slices.Equal(addressOf(guest, second), []string{"198.18.1.10"}) &&
					slices.Equal(addressOf(guest, first), []string{"198.18.0.10", "2001:db8::10"})
			})
			guest := s.properties(machine).Guest
			if config := guest.Net[0].IpConfig; config == nil || config.IpAddress[0].PrefixLength != 24 {
				t.Fatalf("%+v", guest.Net)
			}
			s.off(machine)
			s.eventually(machine, func(guest *types.GuestInfo) bool {
				return guest.IpAddress == "" && len(guest.Net) == 2 && len(guest.Net[0].IpAddress) == 0
			})
		}
	}
}

func TestAGuestReportsNothingWithoutANetworkOfItsOwn(t *testing.T) {
	s := newSite(t)
	for name, text := range map[string]string{
		"other": metadata, "none": "instance-id: web-0", "broken": "network: [", "words": "network: words", "number": "network: {ethernets: 5}",
	} {
		machine := s.clone(name, configured(types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
			&types.OptionValue{Key: "guestinfo.metadata", Value: text},
		}}))
		s.on(machine)
		time.Sleep(50 * time.Millisecond)
		if guest := s.properties(machine).Guest; guest.IpAddress != "" || len(guest.Net) != 1 {
			t.Fatalf("%+v", guest)
		}
	}
}
