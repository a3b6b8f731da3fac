//! What can be wrong with an answer.

/// Stands for what is not kept, because it answers a login, and may repeat the password.
pub(crate) const NOT_SHOWN: &str = "(not shown, because it answers a login)";

/// Why a message could not be read. No sentence repeats what was answered, which need not be a vCenter's. The fields have it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are no XML.
    #[error("the answer is not well-formed XML at byte {offset}")]
    Xml {
        /// Where.
        offset: u64,
        /// What the XML reader says.
        reason: String,
    },
    /// The bytes are no UTF-8.
    #[error("the answer is not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// Where.
        offset: u64,
    },
    /// The message ends before its elements do.
    #[error("the answer was cut off after {length} bytes")]
    Truncated {
        /// How much there was.
        length: u64,
    },
    /// It is XML or HTML, but no SOAP.
    #[error("the answer is not SOAP: it lacks {expected}")]
    NotSoap {
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// An entity that XML does not define.
    #[error("the answer has an entity that XML does not define")]
    UnknownEntity {
        /// The entity.
        name: String,
    },
    /// Text that does not fit its type.
    #[error("the answer has a value that is no {expected}, where one should be")]
    BadValue {
        /// The element.
        element: String,
        /// Its text, shortened.
        value: String,
        /// The type it should have.
        expected: &'static str,
    },
    /// A method that returns something returned nothing.
    #[error("the answer to {method} has no result")]
    NoResult {
        /// The method.
        method: &'static str,
    },
    /// More than the limits allow.
    #[error("the answer has {what}, and the limit is {limit}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl ReadError {
    /// The same without what was answered.
    pub(crate) fn unquoted(mut self) -> Self {
        match &mut self {
            Self::Xml { reason: text, .. } | Self::NotSoap { found: text, .. } | Self::UnknownEntity { name: text } => {
                NOT_SHOWN.clone_into(text);
            }
            Self::BadValue { element, value, .. } => {
                NOT_SHOWN.clone_into(element);
                NOT_SHOWN.clone_into(value);
            }
            Self::NotUtf8 { .. } | Self::Truncated { .. } | Self::NoResult { .. } | Self::TooMuch { .. } => {}
        }
        self
    }
}
