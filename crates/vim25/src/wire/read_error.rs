//! What can be wrong with an answer.

/// Why a message could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are no XML.
    #[error("the answer is not well-formed XML at byte {offset}: {reason}")]
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
    #[error("the answer is not SOAP: it has {found} where {expected} should be")]
    NotSoap {
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// An entity that XML does not define.
    #[error("the answer has the unknown entity &{name};")]
    UnknownEntity {
        /// The entity.
        name: String,
    },
    /// Text that does not fit its type.
    #[error("<{element}> holds {value:?}, which is no {expected}")]
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
