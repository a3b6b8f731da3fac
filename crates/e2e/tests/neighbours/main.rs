//! Many share one operator. What one of them declares hurts that one alone.

mod admitted;
mod borders;
mod fuzz;
mod stored;
mod tenant;

use drover_e2e::Sandbox;
use serde_json::Value;

/// The definitions of Drover's kinds, as the API server has them.
fn definitions(sandbox: &Sandbox) -> Vec<Value> {
    let all = sandbox.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").unwrap();
    all["items"].as_array().expect("a list has items").clone()
}
