//! Objects by path and by name, as people know them.

use std::collections::BTreeMap;

use crate::{
    Client, Error, ManagedObject, ManagedObjectReference, Property, Result,
    methods::{CreateContainerView, DestroyView, FindByInventoryPath},
    props,
    refs::{ContainerViewRef, DatacenterRef, FolderRef, ManagedEntityRef, ResourcePoolRef},
    types::{
        AnySelectionSpec, ObjectContent, ObjectSpec, PropertyFilterSpec, PropertySpec, SelectionSpec, TraversalSpec,
    },
};

/// Why an object was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// There is none.
    #[error("there is no {kind} {name:?}{}", within(.below.as_deref()))]
    NotFound {
        /// The type of object.
        kind: &'static str,
        /// The name or path that was looked for.
        name: String,
        /// Where it was looked for.
        below: Option<String>,
    },
    /// There are several, so one has to be named by its path.
    #[error("{} of type {kind} fit {name:?}: name one by its path: {}", .paths.len(), .paths.join(", "))]
    Ambiguous {
        /// The type of object.
        kind: &'static str,
        /// The name that was looked for.
        name: String,
        /// The paths of all that have it.
        paths: Vec<String>,
    },
    /// The path leads to something else.
    #[error("{path} is a {found}, not a {kind}")]
    WrongKind {
        /// The type that was looked for.
        kind: &'static str,
        /// The path.
        path: String,
        /// The type of what is there.
        found: String,
    },
    /// vCenter could not be asked.
    #[error(transparent)]
    Call(#[from] Error),
}

fn within(below: Option<&str>) -> String {
    below.map(|path| format!(" in {path}")).unwrap_or_default()
}

/// A name as vCenter stores it: with `%`, `/` and `\` escaped.
#[must_use]
pub fn escape(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2f").replace('\\', "%5c")
}

/// A name as people write it.
#[must_use]
pub fn unescape(name: &str) -> String {
    let plain = name.replace("%2f", "/").replace("%2F", "/").replace("%5c", "\\").replace("%5C", "\\");
    plain.replace("%25", "%")
}

/// Looks objects up. Each look-up asks vCenter; nothing is remembered.
#[derive(Clone, Debug)]
pub struct Inventory {
    client: Client,
}

impl Inventory {
    /// The inventory of a vCenter.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The object at a path such as `/DC0/vm/team%2fa/web`, names escaped as vCenter shows them.
    pub async fn at_path(&self, path: &str) -> Result<Option<ManagedObjectReference>> {
        let content = self.client.content().await?;
        let trimmed = path.trim_matches('/');
        if trimmed.is_empty() {
            return Ok(Some(content.root_folder.into()));
        }
        let Some(this) = content.search_index else { return Ok(None) };
        let found = self.client.call(&FindByInventoryPath { this, inventory_path: trimmed.to_owned() }).await?;
        Ok(found.map(Into::into))
    }

    /// The `T` that a name or a path means. A path begins at the root, or at the object given; a name is looked for
    /// everywhere below that object, and has to be the only one of its kind.
    pub async fn find<T: ManagedObject>(
        &self,
        below: Option<&ManagedObjectReference>,
        name: &str,
    ) -> Result<T, LookupError> {
        if name.contains('/') {
            return self.find_path(below, name).await;
        }
        let wanted = escape(name);
        let named = self.all::<T>(below).await?;
        let found =
            named.into_iter().filter(|(_, has)| has == name || *has == wanted).map(|(object, _)| object).collect();
        self.only(found, below, name).await
    }

    /// The one datacenter.
    pub async fn default_datacenter(&self) -> Result<DatacenterRef, LookupError> {
        let all = self.all::<DatacenterRef>(None).await?;
        self.only(all.into_iter().map(|(object, _)| object).collect(), None, "*").await
    }

    /// The one resource pool that every cluster or host of a datacenter has by itself.
    pub async fn default_resource_pool(&self, datacenter: &DatacenterRef) -> Result<ResourcePoolRef, LookupError> {
        let below = Some(datacenter.reference());
        let all = self.all::<ResourcePoolRef>(below).await?;
        let roots = all.into_iter().filter(|(_, name)| name == "Resources").map(|(object, _)| object);
        self.only(roots.collect(), below, "Resources").await
    }

    /// The folder that a datacenter has for machines.
    pub async fn default_folder(&self, datacenter: &DatacenterRef) -> Result<FolderRef, LookupError> {
        let folder = self.client.property(datacenter, props::datacenter::VM_FOLDER).await?;
        let missing = || LookupError::NotFound { kind: FolderRef::TYPE, name: "vm".to_owned(), below: None };
        folder.ok_or_else(missing)
    }

    /// Every `T` below an object, or anywhere, with its name.
    pub async fn all<T: ManagedObject>(&self, below: Option<&ManagedObjectReference>) -> Result<Vec<(T, String)>> {
        let name: Property<T, String> = Property::new("name");
        let mut names = Vec::new();
        for mut object in self.retrieve(below, PropertySpec::of(&[&name])).await? {
            let is = object.take(name)?.unwrap_or_default();
            names.push((T::try_from(object.obj)?, is));
        }
        Ok(names)
    }

    /// Every object below an object, or anywhere, of the type that the properties are of, with those properties.
    pub async fn retrieve(
        &self,
        below: Option<&ManagedObjectReference>,
        properties: PropertySpec,
    ) -> Result<Vec<ObjectContent>> {
        let content = self.client.content().await?;
        let root = below.cloned().unwrap_or_else(|| content.root_folder.clone().into());
        let container = ManagedEntityRef::try_from(root)?;
        let this = content.view_manager.unwrap_or_default();
        let view = CreateContainerView { this, container, type_: vec![properties.type_.clone()], recursive: true };
        let view = self.client.call(&view).await?;
        let found = self.client.retrieve(vec![in_view(&view, properties)]).await;
        self.client.call(&DestroyView { this: view.into() }).await?;
        found
    }

    /// The path of an object, from the root, names escaped.
    pub async fn path_of(&self, object: &ManagedObjectReference) -> Result<String> {
        let mut entities = self.ancestry(object).await?;
        let mut names = Vec::new();
        let mut next = Some(object.clone());
        // Each is taken once: a server may say of an object that it is inside itself.
        while let Some((name, parent)) = next.take().and_then(|object| entities.remove(&object)) {
            if parent.is_some() {
                names.push(name);
            }
            next = parent;
        }
        names.reverse();
        Ok(format!("/{}", names.join("/")))
    }

    async fn find_path<T: ManagedObject>(
        &self,
        below: Option<&ManagedObjectReference>,
        path: &str,
    ) -> Result<T, LookupError> {
        let full = match below {
            Some(below) if !path.starts_with('/') => format!("{}/{path}", self.path_of(below).await?),
            _ => path.to_owned(),
        };
        match self.at_path(&full).await? {
            None => Err(LookupError::NotFound { kind: T::TYPE, name: full, below: None }),
            Some(object) if !object.is_a(T::TYPE) => {
                let found = object.type_name().to_owned();
                Err(LookupError::WrongKind { kind: T::TYPE, path: full, found })
            }
            Some(object) => Ok(T::try_from(object).map_err(Error::from)?),
        }
    }

    /// The only one of what was found.
    async fn only<T: ManagedObject>(
        &self,
        mut found: Vec<T>,
        below: Option<&ManagedObjectReference>,
        name: &str,
    ) -> Result<T, LookupError> {
        if found.len() > 1 {
            let mut paths = Vec::new();
            for object in &found {
                paths.push(self.path_of(object.reference()).await?);
            }
            paths.sort();
            return Err(LookupError::Ambiguous { kind: T::TYPE, name: name.to_owned(), paths });
        }
        if let Some(object) = found.pop() {
            Ok(object)
        } else {
            let below = match below {
                Some(below) => Some(self.path_of(below).await?),
                None => None,
            };
            Err(LookupError::NotFound { kind: T::TYPE, name: name.to_owned(), below })
        }
    }

    /// An object and all that it is in, each with its name and parent, in one call.
    async fn ancestry(
        &self,
        object: &ManagedObjectReference,
    ) -> Result<BTreeMap<ManagedObjectReference, (String, Option<ManagedObjectReference>)>> {
        let name = props::managed_entity::NAME;
        let parent = props::managed_entity::PARENT;
        let filter = PropertyFilterSpec {
            prop_set: vec![PropertySpec::of(&[&name, &parent])],
            object_set: vec![ObjectSpec {
                obj: object.clone(),
                skip: Some(false),
                select_set: vec![traversal("up", ManagedEntityRef::TYPE, "parent", &["up"])],
            }],
            report_missing_objects_in_results: None,
        };
        let mut found = BTreeMap::new();
        for mut entity in self.client.retrieve(vec![filter]).await? {
            let name = entity.take(name)?.unwrap_or_default();
            let parent = entity.take(parent)?.map(Into::into);
            found.insert(entity.obj, (name, parent));
        }
        Ok(found)
    }
}

/// A filter for what a view shows.
fn in_view(view: &ContainerViewRef, properties: PropertySpec) -> PropertyFilterSpec {
    PropertyFilterSpec {
        prop_set: vec![properties],
        object_set: vec![ObjectSpec {
            obj: view.reference().clone(),
            skip: Some(true),
            select_set: vec![traversal("view", ContainerViewRef::TYPE, "view", &[])],
        }],
        report_missing_objects_in_results: None,
    }
}

/// A step from an object to what a property of it refers to, and from there the steps named.
fn traversal(name: &str, from: &str, path: &str, then: &[&str]) -> AnySelectionSpec {
    let step =
        |name: &&str| AnySelectionSpec::SelectionSpec(Box::new(SelectionSpec { name: Some((*name).to_owned()) }));
    AnySelectionSpec::TraversalSpec(Box::new(TraversalSpec {
        base: SelectionSpec { name: Some(name.to_owned()) },
        type_: from.to_owned(),
        path: path.to_owned(),
        skip: Some(false),
        select_set: then.iter().map(step).collect(),
    }))
}
