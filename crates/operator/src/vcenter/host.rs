//! A host as vCenter last told of it.

use std::{collections::BTreeMap, convert::identity};

use drover_core::{Timestamp, vmgroup::placement::Obstacle};
use smol_str::SmolStr;
use vim25::{
    ManagedObjectReference, Result,
    props::host_system as host,
    types::{AnyCustomFieldValue, CustomFieldStringValue, ObjectUpdate, PropertySpec},
};

use super::{
    figures::Figures,
    property::{Unreadable, Unset},
};

/// A host. What is not known is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Host {
    pub name: String,
    pub parent: Option<ManagedObjectReference>,
    pub hardware: Option<Hardware>,
    pub version: Option<String>,
    pub build: Option<String>,
    pub connection: Option<SmolStr>,
    pub in_maintenance: Option<bool>,
    pub power: Option<String>,
    pub booted: Option<Timestamp>,
    /// `None`: they have not been read. Nobody looks at them.
    pub figures: Option<Box<Figures>>,
    /// vCenter's own judgement: green, yellow, red or gray.
    pub health: Option<SmolStr>,
    pub tags: Vec<String>,
    /// The names of the attributes that it may have, by their keys.
    pub attribute_names: BTreeMap<i32, String>,
    pub attribute_values: BTreeMap<i32, String>,
    pub unreadable: Unreadable,
}

/// What a host is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hardware {
    pub vendor: String,
    pub model: String,
    pub cpu_model: String,
    pub cores: i64,
    /// The speed of each core.
    pub mhz: i64,
    pub memory_mib: i64,
}

/// The properties that a host is made from.
pub(crate) fn properties() -> PropertySpec {
    PropertySpec::of(&[
        &host::NAME,
        &host::PARENT,
        &host::SUMMARY_HARDWARE,
        &host::SUMMARY_CONFIG_PRODUCT,
        &host::RUNTIME_CONNECTION_STATE,
        &host::RUNTIME_IN_MAINTENANCE_MODE,
        &host::RUNTIME_POWER_STATE,
        &host::RUNTIME_BOOT_TIME,
        &host::OVERALL_STATUS,
        &host::TAG,
        &host::AVAILABLE_FIELD,
        &host::CUSTOM_VALUE,
    ])
}

impl Host {
    /// Takes up what vCenter told. What people read is left out where it can't be read.
    pub(crate) fn change(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(name) = update.take(host::NAME)? {
            self.name = name.unwrap_or_default();
        }
        if let Some(parent) = update.take(host::PARENT)? {
            self.parent = parent.map(Into::into);
        }
        let connection = self.unreadable.take(update, host::RUNTIME_CONNECTION_STATE);
        connection.renew(&mut self.connection, Unset::Unknown, |state| state.to_string().into());
        let unset = Unset::of(self.connection.as_deref());
        self.change_make(update, unset);
        self.change_state(update, unset);
        self.change_notes(update);
        Ok(())
    }

    /// Why it takes no machines now, if it doesn't.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        match (self.connection.as_deref(), self.power.as_deref()) {
            (None, _) => Some(Obstacle::Missing),
            (Some("disconnected"), _) => Some(Obstacle::Disconnected),
            (_, Some("poweredOff" | "standBy")) => Some(Obstacle::PoweredOff),
            (Some("connected"), _) => (self.in_maintenance == Some(true)).then_some(Obstacle::InMaintenance),
            (Some(_), _) => Some(Obstacle::NotResponding),
        }
    }

    /// The attributes that are set on it, by name.
    pub(crate) fn attributes(&self) -> BTreeMap<String, String> {
        let named = |(key, value): (&i32, &String)| Some((self.attribute_names.get(key)?.clone(), value.clone()));
        self.attribute_values.iter().filter_map(named).collect()
    }

    fn change_make(&mut self, update: &mut ObjectUpdate, unset: Unset) {
        self.unreadable.take(update, host::SUMMARY_HARDWARE).renew(&mut self.hardware, unset, |hardware| Hardware {
            vendor: hardware.vendor,
            model: hardware.model,
            cpu_model: hardware.cpu_model,
            cores: hardware.num_cpu_cores.into(),
            mhz: hardware.cpu_mhz.into(),
            memory_mib: hardware.memory_size / (1024 * 1024),
        });
        let product = self.unreadable.take(update, host::SUMMARY_CONFIG_PRODUCT);
        product.clone().renew(&mut self.version, unset, |product| product.version);
        product.renew(&mut self.build, unset, |product| product.build);
    }

    fn change_state(&mut self, update: &mut ObjectUpdate, unset: Unset) {
        let told = &mut self.unreadable;
        told.take(update, host::RUNTIME_IN_MAINTENANCE_MODE).renew(&mut self.in_maintenance, unset, identity);
        told.take(update, host::RUNTIME_POWER_STATE).renew(&mut self.power, unset, |power| power.to_string());
        told.take(update, host::RUNTIME_BOOT_TIME).renew(&mut self.booted, unset, identity);
        told.take(update, host::OVERALL_STATUS).renew(&mut self.health, unset, |health| health.to_string().into());
    }

    /// What people have noted on it.
    fn change_notes(&mut self, update: &mut ObjectUpdate) {
        let told = &mut self.unreadable;
        told.take(update, host::TAG).renew_all(&mut self.tags, Unset::None, |tag| [tag.key]);
        if let Some(fields) = told.take(update, host::AVAILABLE_FIELD).or_default() {
            self.attribute_names = fields.into_iter().map(|field| (field.key, field.name)).collect();
        }
        if let Some(values) = told.take(update, host::CUSTOM_VALUE).or_default() {
            self.attribute_values = values.iter().filter_map(attribute).collect();
        }
    }
}

fn attribute(value: &AnyCustomFieldValue) -> Option<(i32, String)> {
    let text = value.downcast_ref::<CustomFieldStringValue>()?;
    Some((text.base.key, text.value.clone()))
}

#[cfg(test)]
mod tests {
    use vim25::{Any, types::PropertyChange};

    use super::*;

    #[test]
    fn an_odd_value_of_a_host_hides_no_other() {
        let values = [
            ("summary.config.product", Any::Int(8)),
            ("name", Any::from("esxi-1")),
            ("runtime.inMaintenanceMode", Any::Boolean(true)),
            ("tag", Any::Boolean(true)),
            ("runtime.connectionState", Any::from("connected")),
        ];
        let change_set =
            values.map(|(name, val)| PropertyChange { name: name.to_owned(), val: Some(val), ..Default::default() });
        let mut host = Host::default();
        host.change(&mut ObjectUpdate { change_set: change_set.into(), ..ObjectUpdate::default() }).unwrap();
        assert_eq!((host.name.as_str(), host.in_maintenance), ("esxi-1", Some(true)));
        assert_eq!((host.connection.as_deref(), host.version), (Some("connected"), None));
    }
}
