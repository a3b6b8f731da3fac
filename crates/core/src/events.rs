//! What people are told of an object, once.

/// Something to tell of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct News {
    /// Whether somebody should look.
    pub is_warning: bool,
    /// What it is about, in one word.
    pub reason: &'static str,
    /// What it is, as a sentence.
    pub message: String,
}
