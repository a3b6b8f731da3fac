//! Properties read once, all pages of them.

use super::{Client, Session};
use crate::{
    Error, ManagedObject, ManagedObjectReference, Result,
    any::FromAny,
    methods::{ContinueRetrievePropertiesEx, RetrievePropertiesEx},
    property::Property,
    types::{ObjectContent, ObjectSpec, PropertyFilterSpec, PropertySpec, RetrieveOptions},
};

/// How many objects to ask for at once. Without a limit it may be all there are.
const PAGE: i32 = 1000;
/// How many pages and objects there may be: more than any vCenter has, and an end to a server that has none.
const MOST_PAGES: usize = 1000;
const MOST_OBJECTS: usize = 200_000;

impl Client {
    /// Reads what the filters select, however many pages that takes, within reason. Where the session has expired, logs in again and
    /// begins anew.
    pub async fn retrieve(&self, spec_set: Vec<PropertyFilterSpec>) -> Result<Vec<ObjectContent>> {
        let session = self.session().await?;
        match self.retrieve_within(&session, spec_set.clone()).await {
            Err(error) if error.is_session_lost() => {
                let session = self.session().await?;
                self.retrieve_within(&session, spec_set).await
            }
            outcome => outcome,
        }
    }

    /// [`Client::retrieve`] in this very session: where it has expired, that is the error.
    pub async fn retrieve_within(
        &self,
        session: &Session,
        spec_set: Vec<PropertyFilterSpec>,
    ) -> Result<Vec<ObjectContent>> {
        let this = session.content.property_collector.clone();
        let options = RetrieveOptions { max_objects: Some(PAGE) };
        let first = RetrievePropertiesEx { this: this.clone(), spec_set, options };
        let Some(mut page) = self.call_within(session, &first).await? else { return Ok(Vec::new()) };
        let mut objects = page.objects;
        let mut pages = 1;
        while let Some(token) = page.token.take() {
            if pages == MOST_PAGES || objects.len() > MOST_OBJECTS {
                let endpoint = self.endpoint().to_string();
                return Err(Error::TooManyObjects { endpoint, objects: objects.len(), pages });
            }
            page = self.call_within(session, &ContinueRetrievePropertiesEx { this: this.clone(), token }).await?;
            objects.append(&mut page.objects);
            pages += 1;
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
