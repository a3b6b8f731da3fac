//! A host as vCenter last told of it.

use std::collections::BTreeMap;

use drover_core::group::Timestamp;
use vim25::{
    ManagedObjectReference, Result,
    props::host_system as host,
    types::{AnyCustomFieldValue, CustomFieldStringValue, ObjectUpdate, PropertySpec},
};

/// A host. What is not known is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Host {
    pub name: String,
    pub parent: Option<ManagedObjectReference>,
    pub hardware: Option<Hardware>,
    pub version: Option<String>,
    pub build: Option<String>,
    pub connection: Option<String>,
    pub in_maintenance: Option<bool>,
    pub power: Option<String>,
    pub booted: Option<Timestamp>,
    /// MHz.
    pub cpu_use: Option<i64>,
    /// MiB.
    pub memory_use: Option<i64>,
    /// vCenter's own judgement: green, yellow, red or gray.
    pub health: Option<String>,
    pub tags: Vec<String>,
    /// The names of the attributes that it may have, by their keys.
    pub attribute_names: BTreeMap<i32, String>,
    pub attribute_values: BTreeMap<i32, String>,
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
        &host::SUMMARY_QUICK_STATS_OVERALL_CPU_USAGE,
        &host::SUMMARY_QUICK_STATS_OVERALL_MEMORY_USAGE,
        &host::OVERALL_STATUS,
        &host::TAG,
        &host::AVAILABLE_FIELD,
        &host::CUSTOM_VALUE,
    ])
}

impl Host {
    /// Takes up what vCenter told.
    pub(crate) fn change(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(name) = update.take(host::NAME)? {
            self.name = name.unwrap_or_default();
        }
        if let Some(parent) = update.take(host::PARENT)? {
            self.parent = parent.map(Into::into);
        }
        self.change_make(update)?;
        self.change_state(update)?;
        self.change_notes(update)
    }

    /// The attributes that are set on it, by name.
    pub(crate) fn attributes(&self) -> BTreeMap<String, String> {
        let named = |(key, value): (&i32, &String)| Some((self.attribute_names.get(key)?.clone(), value.clone()));
        self.attribute_values.iter().filter_map(named).collect()
    }

    fn change_make(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(hardware) = update.take(host::SUMMARY_HARDWARE)? {
            self.hardware = hardware.map(|hardware| Hardware {
                vendor: hardware.vendor,
                model: hardware.model,
                cpu_model: hardware.cpu_model,
                cores: hardware.num_cpu_cores.into(),
                mhz: hardware.cpu_mhz.into(),
                memory_mib: hardware.memory_size / (1024 * 1024),
            });
        }
        if let Some(product) = update.take(host::SUMMARY_CONFIG_PRODUCT)? {
            (self.version, self.build) = product.map(|product| (product.version, product.build)).unzip();
        }
        Ok(())
    }

    fn change_state(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(state) = update.take(host::RUNTIME_CONNECTION_STATE)? {
            self.connection = state.map(|state| state.to_string());
        }
        if let Some(maintenance) = update.take(host::RUNTIME_IN_MAINTENANCE_MODE)? {
            self.in_maintenance = maintenance;
        }
        if let Some(power) = update.take(host::RUNTIME_POWER_STATE)? {
            self.power = power.map(|power| power.to_string());
        }
        if let Some(booted) = update.take(host::RUNTIME_BOOT_TIME)? {
            self.booted = booted;
        }
        if let Some(cpu) = update.take(host::SUMMARY_QUICK_STATS_OVERALL_CPU_USAGE)? {
            self.cpu_use = cpu.map(Into::into);
        }
        if let Some(memory) = update.take(host::SUMMARY_QUICK_STATS_OVERALL_MEMORY_USAGE)? {
            self.memory_use = memory.map(Into::into);
        }
        if let Some(health) = update.take(host::OVERALL_STATUS)? {
            self.health = health.map(|health| health.to_string());
        }
        Ok(())
    }

    /// What people have noted on it.
    fn change_notes(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(tags) = update.take(host::TAG)? {
            self.tags = tags.unwrap_or_default().into_iter().map(|tag| tag.key).collect();
        }
        if let Some(fields) = update.take(host::AVAILABLE_FIELD)? {
            self.attribute_names =
                fields.unwrap_or_default().into_iter().map(|field| (field.key, field.name)).collect();
        }
        if let Some(values) = update.take(host::CUSTOM_VALUE)? {
            self.attribute_values = values.unwrap_or_default().iter().filter_map(attribute).collect();
        }
        Ok(())
    }
}

fn attribute(value: &AnyCustomFieldValue) -> Option<(i32, String)> {
    let text = value.downcast_ref::<CustomFieldStringValue>()?;
    Some((text.base.key, text.value.clone()))
}
