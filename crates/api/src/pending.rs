//! What is said of an object before Drover has seen it. Tools that wait for objects take one without any status for finished.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSON};
use serde_json::json;

/// The field that says which generation a status is about.
pub(crate) const GENERATION: &str = "observedGeneration";
/// The generation that a status is about while nobody has looked at the object.
pub(crate) const NONE: i64 = -1;

/// Has the API server say of each object without a status that none of its generations was seen.
pub(crate) fn declare(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas =
        crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut());
    for status in schemas.filter_map(|schema| schema.properties.as_mut()?.get_mut("status")) {
        status.default = Some(JSON(json!({GENERATION: NONE})));
        let generation = status.properties.as_mut().and_then(|fields| fields.get_mut(GENERATION));
        if let Some(generation) = generation {
            // Exact: it is small.
            #[allow(clippy::cast_precision_loss)]
            let least = NONE as f64;
            generation.minimum = Some(least);
        }
    }
    crd
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kind_has_a_status_from_the_start_that_is_about_no_generation() {
        for crd in crate::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            let status = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
            assert_eq!(status["default"], serde_json::json!({"observedGeneration": -1}), "{}", crd["metadata"]["name"]);
            assert_eq!(status["properties"]["observedGeneration"]["minimum"], -1.0);
        }
    }
}
