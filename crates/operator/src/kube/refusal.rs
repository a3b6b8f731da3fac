//! What it means when the API server refuses something.

use kube::Error;

/// Why something failed, as people read it. What kube prints of an answer has all its fields in it.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Whether something could not be made because its namespace is being deleted.
pub(crate) fn is_namespace_ending(error: &Error) -> bool {
    let Error::Api(status) = error else { return false };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// Whether something could not be made because its namespace is being deleted, or is gone.
pub(crate) fn is_namespace_leaving(error: &Error) -> bool {
    let is_gone = |error: &Error| {
        let Error::Api(status) = error else { return false };
        status.code == 404 && status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
    };
    is_namespace_ending(error) || is_gone(error)
}

/// Whether something is not as it was when it was looked at: it has changed, or it has come to be there.
pub(crate) fn is_stale(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(status: serde_json::Value) -> Error {
        Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn a_namespace_that_is_being_deleted_is_told_from_a_missing_right() {
        let causes = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]);
        let ending =
            error(json!({"code": 403, "reason": "Forbidden", "details": {"kind": "vminfoes", "causes": causes}}));
        let right = error(json!({"code": 403, "reason": "Forbidden", "details": {"kind": "vminfoes"}}));
        let gone = error(json!({"code": 404, "reason": "NotFound", "details": {"kind": "namespaces", "name": "n"}}));
        let other = error(json!({"code": 404, "reason": "NotFound", "details": {"kind": "vminfoes", "name": "n"}}));
        let all = [ending, right, gone, other];
        assert_eq!(all.each_ref().map(is_namespace_ending), [true, false, false, false]);
        assert_eq!(all.each_ref().map(is_namespace_leaving), [true, false, true, false]);
    }
}
