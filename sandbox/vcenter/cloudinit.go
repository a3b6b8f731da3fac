package vcenter

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/vmware/govmomi/vim25/types"
)

// netplan is what cloud-init is told of a guest's network, as far as VMware Tools report it.
type netplan struct {
	Ethernets map[string]struct {
		Match struct {
			MACAddress string `json:"macaddress"`
		} `json:"match"`
		Addresses []json.RawMessage `json:"addresses"`
	} `json:"ethernets"`
}

// metadataOf is the network that a machine's extraConfig gives its guest, by the addresses of its cards in lower case. What
// can't be read gives it none, as in the guest.
func metadataOf(extra []types.BaseOptionValue) map[string][]netip.Prefix {
	text, encoding := option(extra, "guestinfo.metadata"), option(extra, "guestinfo.metadata.encoding")
	if text == "" {
		return nil
	}
	plan, err := readMetadata(text, encoding)
	if err != nil {
		log.Printf("a guest can't read its metadata: %v", err)
		return nil
	}
	found := map[string][]netip.Prefix{}
	for _, name := range slices.Sorted(maps.Keys(plan.Ethernets)) {
		ethernet := plan.Ethernets[name]
		mac := strings.ToLower(ethernet.Match.MACAddress)
		for _, address := range ethernet.Addresses {
			if prefix, err := readAddress(address); err == nil && mac != "" {
				found[mac] = append(found[mac], prefix)
			}
		}
	}
	return found
}

func option(extra []types.BaseOptionValue, key string) string {
	for _, each := range extra {
		if option := each.GetOptionValue(); option.Key == key {
			return fmt.Sprint(option.Value)
		}
	}
	return ""
}

// readMetadata reads YAML, of which JSON is a part. The network is there as it is, or as text of its own.
func readMetadata(text, encoding string) (*netplan, error) {
	plain, err := decode(text, encoding)
	if err != nil {
		return nil, err
	}
	var metadata struct {
		Network  json.RawMessage `json:"network"`
		Encoding string          `json:"network.encoding"`
	}
	if err := yaml.Unmarshal(plain, &metadata); err != nil {
		return nil, err
	}
	network := []byte(metadata.Network)
	var inner string
	if json.Unmarshal(network, &inner) == nil && inner != "" {
		if network, err = decode(inner, metadata.Encoding); err != nil {
			return nil, err
		}
	}
	var plan struct {
		netplan
		Network *netplan `json:"network"`
		Config  *netplan `json:"config"`
	}
	if err := yaml.Unmarshal(network, &plan); err != nil {
		return nil, err
	}
	for _, wrapped := range []*netplan{plan.Network, plan.Config} {
		if wrapped != nil {
			return wrapped, nil
		}
	}
	return &plan.netplan, nil
}

// decode undoes the encodings that cloud-init knows.
func decode(text, encoding string) ([]byte, error) {
	switch encoding {
	case "":
		return []byte(text), nil
	case "base64", "b64", "gzip+base64", "gz+b64":
	default:
		return nil, fmt.Errorf("encoding %q", encoding)
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !strings.HasPrefix(encoding, "gz") {
		return plain, err
	}
	z, err := gzip.NewReader(bytes.NewReader(plain))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// readAddress reads an address with its prefix, with or without options.
func readAddress(raw json.RawMessage) (netip.Prefix, error) {
	var address string
	if err := json.Unmarshal(raw, &address); err == nil {
		return netip.ParsePrefix(address)
	}
	var with map[string]any
	if err := json.Unmarshal(raw, &with); err != nil {
		return netip.Prefix{}, err
	}
	for address = range with {
	}
	return netip.ParsePrefix(address)
}
