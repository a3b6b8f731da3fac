//! Questions and answers as the API server writes and reads them: `AdmissionReview`, version 1.

use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Question {
    pub uid: String,
    pub operation: Operation,
    pub resource: Kind,
    #[serde(default)]
    pub sub_resource: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub name: String,
    /// As text: whoever asks may write anything there, and much of it.
    #[serde(default)]
    pub object: Option<Box<RawValue>>,
    #[serde(default)]
    pub old_object: Option<Box<RawValue>>,
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Kind {
    pub resource: String,
}

#[derive(Deserialize)]
struct Review {
    request: Question,
}

/// What is answered: by default, that it is admitted without a word.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Why it is not admitted.
    pub refusal: Option<String>,
    pub warnings: Vec<String>,
}

pub(super) fn read(body: &[u8]) -> Result<Question, serde_json::Error> {
    serde_json::from_slice::<Review>(body).map(|review| review.request)
}

pub(super) fn write(uid: &str, answer: &Answer) -> String {
    let mut response = json!({"uid": uid, "allowed": answer.refusal.is_none()});
    if let Some(refusal) = &answer.refusal {
        response["status"] = json!({"code": 403, "reason": "Forbidden", "message": refusal});
    }
    if !answer.warnings.is_empty() {
        response["warnings"] = json!(answer.warnings);
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string()
}
