# What a user of Terraform writes for some VMs that are cloned from a template.

terraform {
  required_providers {
    vsphere = { source = "hashicorp/vsphere" }
  }
}

variable "vms" { type = number }
variable "prefix" { type = string }

# The vCenter and its credentials are in the environment.
provider "vsphere" {}

data "vsphere_datacenter" "datacenter" {
  name = "DC0"
}

data "vsphere_compute_cluster" "cluster" {
  name          = "DC0_C0"
  datacenter_id = data.vsphere_datacenter.datacenter.id
}

data "vsphere_datastore" "datastore" {
  name          = "LocalDS_0"
  datacenter_id = data.vsphere_datacenter.datacenter.id
}

data "vsphere_network" "network" {
  name          = "DC0_DVPG0"
  datacenter_id = data.vsphere_datacenter.datacenter.id
}

data "vsphere_virtual_machine" "template" {
  name          = "vm-operator/vm-operator-template"
  datacenter_id = data.vsphere_datacenter.datacenter.id
}

resource "vsphere_virtual_machine" "web" {
  count            = var.vms
  name             = "${var.prefix}-${count.index}"
  folder           = "vm-operator"
  resource_pool_id = data.vsphere_compute_cluster.cluster.resource_pool_id
  datastore_id     = data.vsphere_datastore.datastore.id
  guest_id         = data.vsphere_virtual_machine.template.guest_id
  scsi_type        = data.vsphere_virtual_machine.template.scsi_type
  num_cpus         = 1
  memory           = 1024

  network_interface {
    network_id   = data.vsphere_network.network.id
    adapter_type = data.vsphere_virtual_machine.template.network_interface_types[0]
  }

  disk {
    label            = "disk0"
    size             = data.vsphere_virtual_machine.template.disks[0].size
    thin_provisioned = data.vsphere_virtual_machine.template.disks[0].thin_provisioned
  }

  clone {
    template_uuid = data.vsphere_virtual_machine.template.id
  }

  # Nothing runs in the VMs that could tell an address.
  wait_for_guest_ip_timeout  = 0
  wait_for_guest_net_timeout = 0
}
