//! What people are told of an object, once.

/// Something to tell of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// Whether somebody should look.
    pub is_warning: bool,
    /// What it is about, in one word.
    pub reason: &'static str,
    /// What it is, as a sentence.
    pub message: String,
}

impl Event {
    /// An event that somebody should look at.
    #[must_use]
    pub fn warning(reason: impl Into<&'static str>, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason: reason.into(), message: message.into() }
    }

    /// An event that is only of interest.
    #[must_use]
    pub fn normal(reason: impl Into<&'static str>, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason: reason.into(), message: message.into() }
    }
}
