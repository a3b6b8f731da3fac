//! A line of the log as one JSON object: `ts`, `level`, `msg`, `target`, then the fields, flat.

use std::fmt::{Debug, Write as _};

use drover_core::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tracing::{
    Event,
    field::{Field, Visit},
};

/// What every line has. A field of such a name has `field_` put before it.
const OWN: [&str; 4] = ["ts", "level", "msg", "target"];

/// The line of an event.
pub(super) fn line(event: &Event<'_>, now: Timestamp) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let metadata = event.metadata();
    object(now, metadata.level().as_str(), &fields.message, metadata.target(), &fields.rest)
}

/// A line that is not an event's.
pub(super) fn object(now: Timestamp, level: &str, message: &str, target: &str, fields: &str) -> String {
    let ts = format!("{now:.6}");
    let mut line = format!("{{\"ts\":{},\"level\":{}", text(&ts), text(&level.to_ascii_lowercase()));
    // Writing to a string can't fail.
    let _ = write!(line, ",\"msg\":{},\"target\":{}{fields}}}", text(message), text(target));
    line
}

/// A line with how often it came, beside that one, in the minute that is over.
pub(super) fn counted(line: &str, times: usize) -> String {
    let line = line.strip_suffix('}').unwrap_or(line);
    format!("{line},\"repeated\":{times}}}")
}

/// A field, to put after those before it.
pub(super) fn field(name: &str, value: &(impl Serialize + ?Sized)) -> String {
    let prefix = if OWN.contains(&name) { "field_" } else { "" };
    // Text and numbers can always be written.
    format!(",{}:{}", text(&format!("{prefix}{name}")), serde_json::to_string(value).unwrap_or_default())
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &(impl Serialize + ?Sized)) {
        // What came in by the `log` crate says so in fields of this kind.
        if !field.name().starts_with("log.") {
            self.rest += &self::field(field.name(), value);
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.add(field, &text);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.add(field, value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_said_is_one_object_on_one_line() {
        let fields =
            field("error", "a \"quoted\"\nline\u{1b}[31m") + &field("msg", "another") + &field("seconds", &1.5);
        let line = counted(&object(Timestamp::UNIX_EPOCH, "WARN", "Reconcile failed", "drover::group", &fields), 41);
        assert!(!line.contains('\n'), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!({
            "ts": "1970-01-01T00:00:00.000000Z", "level": "warn", "msg": "Reconcile failed", "target": "drover::group",
            "error": "a \"quoted\"\nline\u{1b}[31m", "field_msg": "another", "seconds": 1.5, "repeated": 41,
        });
        assert_eq!(read, expected);
    }
}
