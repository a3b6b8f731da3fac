//! Objects found by the names and paths that people use.

use drover_e2e::Sandbox;
use vim25::{
    Inventory, LookupError, ManagedObject,
    inventory::escape,
    refs::{DatacenterRef, DatastoreRef, FolderRef, HostSystemRef, NetworkRef, ResourcePoolRef, VirtualMachineRef},
};

use super::{FOLDER, Site, client, object, path};

#[tokio::test]
async fn objects_are_found_by_name_and_by_path_and_know_their_path() {
    let site = Site::new().await;
    let by_name: VirtualMachineRef = site.inventory.find(None, "vm-operator-template").await.unwrap();
    let by_path: VirtualMachineRef = site.inventory.find(None, &path("vm-operator-template")).await.unwrap();
    let below: VirtualMachineRef =
        site.inventory.find(Some(site.datacenter.reference()), "vm/vm-operator/vm-operator-template").await.unwrap();
    assert_eq!((&by_name, &by_name), (&by_path, &below));
    assert_eq!(site.inventory.path_of(&object(&by_name)).await.unwrap(), path("vm-operator-template"));

    for (name, path) in [("DC0_C0_H1", "/DC0/host/DC0_C0/DC0_C0_H1"), ("DC0_C0_H0", "/DC0/host/DC0_C0/DC0_C0_H0")] {
        let host: HostSystemRef = site.inventory.find(None, name).await.unwrap();
        assert_eq!(site.inventory.path_of(host.reference()).await.unwrap(), path);
    }
    let datastore: DatastoreRef = site.inventory.find(None, "LocalDS_0").await.unwrap();
    assert_eq!(site.seen(&datastore, "name"), "LocalDS_0");
    let network: NetworkRef = site.inventory.find(None, "VM Network").await.unwrap();
    assert_eq!(site.seen(&network, "name"), "VM Network");
    assert_eq!(site.inventory.at_path("/").await.unwrap().unwrap().type_name(), "Folder");
}

#[tokio::test]
async fn a_name_with_a_slash_is_found_by_its_escaped_form() {
    let site = Site::new().await;
    assert_eq!(escape(r"50% a/b\c"), "50%25 a%2fb%5cc");
    let folder = vim25::methods::CreateFolder { this: site.folder.clone(), name: "team/a".to_owned() };
    let made = site.client.call(&folder).await.unwrap();
    let name = escape("team/a");
    assert_eq!(site.seen(&made, "name"), name);
    assert_eq!(site.inventory.find::<FolderRef>(None, &path(&name)).await.unwrap(), made);
    assert_eq!(site.inventory.path_of(made.reference()).await.unwrap(), path(&name));
}

#[tokio::test]
async fn the_defaults_are_those_of_an_inventory_with_one_of_each() {
    let site = Site::new().await;
    assert_eq!(site.seen(&site.inventory.default_datacenter().await.unwrap(), "name"), "DC0");
    assert_eq!(site.seen(&site.pool, "name"), "Resources");
    let folder = site.inventory.default_folder(&site.datacenter).await.unwrap();
    assert_eq!(site.inventory.path_of(folder.reference()).await.unwrap(), "/DC0/vm");
}

#[tokio::test]
async fn what_is_not_there_or_not_of_the_kind_is_said_with_its_path() {
    let site = Site::new().await;
    let none = site.inventory.find::<VirtualMachineRef>(Some(site.folder.reference()), "nobody").await.unwrap_err();
    assert_eq!(none.to_string(), format!("there is no VirtualMachine \"nobody\" in {FOLDER}"));
    let none = site.inventory.find::<VirtualMachineRef>(None, "/DC0/vm/nobody").await.unwrap_err();
    assert_eq!(none.to_string(), "there is no VirtualMachine \"/DC0/vm/nobody\"");
    let wrong = site.inventory.find::<VirtualMachineRef>(None, FOLDER).await.unwrap_err();
    assert_eq!(wrong.to_string(), format!("{FOLDER} is a Folder, not a VirtualMachine"));
}

#[tokio::test]
async fn two_of_one_name_are_both_shown() {
    let double = Sandbox::start("double", &["--kubernetes=false", "--second-datacenter", "--second-template"]).unwrap();
    let inventory = Inventory::new(client(double.vcenter()));
    let several = inventory.find::<VirtualMachineRef>(None, "vm-operator-template").await.unwrap_err();
    let LookupError::Ambiguous { paths, .. } = &several else { panic!("{several:?}") };
    let expected = ["/DC0/vm/elsewhere/vm-operator-template", "/DC0/vm/vm-operator/vm-operator-template"];
    assert_eq!(paths, &expected);
    let datacenters = inventory.default_datacenter().await.unwrap_err();
    assert!(datacenters.to_string().contains("/DC0, /DC1"), "{datacenters}");
    let second: DatacenterRef = inventory.find(None, "/DC1").await.unwrap();
    let pool: ResourcePoolRef = inventory.default_resource_pool(&second).await.unwrap();
    assert_eq!(inventory.path_of(pool.reference()).await.unwrap(), "/DC1/host/DC1_C0/Resources");
}
