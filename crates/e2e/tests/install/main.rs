//! Drover as people install it: an image made by a real builder, the manifests of this repository, a real node. `make test-install`
//! runs it.

mod commands;
mod helm;
mod installation;
mod namespaced;
mod page;
mod removal;
mod replicas;
mod seeds;
mod webhook;
