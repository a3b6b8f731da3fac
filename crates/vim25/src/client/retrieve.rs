//! Properties read once, all pages of them.

use super::Client;
use crate::{
    ManagedObject, ManagedObjectReference, Result,
    any::FromAny,
    methods::{ContinueRetrievePropertiesEx, RetrievePropertiesEx},
    property::Property,
    types::{ObjectContent, ObjectSpec, PropertyFilterSpec, PropertySpec, RetrieveOptions},
};

impl Client {
    /// Reads what the filters select, however many pages that takes.
    pub async fn retrieve(&self, spec_set: Vec<PropertyFilterSpec>) -> Result<Vec<ObjectContent>> {
        let this = self.content().await?.property_collector;
        let options = RetrieveOptions::default();
        let first = RetrievePropertiesEx { this: this.clone(), spec_set, options };
        let Some(mut page) = self.call(&first).await? else { return Ok(Vec::new()) };
        let mut objects = page.objects;
        while let Some(token) = page.token.take() {
            page = self.call(&ContinueRetrievePropertiesEx { this: this.clone(), token }).await?;
            objects.append(&mut page.objects);
        }
        Ok(objects)
    }

    /// Reads one property of one object. `None`: it is not set.
    pub async fn property<O: ManagedObject, T: FromAny>(
        &self,
        object: &O,
        property: Property<O, T>,
    ) -> Result<Option<T>> {
        let mut contents =
            self.retrieve(vec![of_object(object.reference(), vec![PropertySpec::of(&[&property])])]).await?;
        let content = contents.first_mut();
        Ok(content.map(|content| content.take(property)).transpose()?.flatten())
    }
}

/// A filter for one object.
pub(crate) fn of_object(object: &ManagedObjectReference, prop_set: Vec<PropertySpec>) -> PropertyFilterSpec {
    let object = ObjectSpec { obj: object.clone(), ..ObjectSpec::default() };
    PropertyFilterSpec { prop_set, object_set: vec![object], report_missing_objects_in_results: None }
}
