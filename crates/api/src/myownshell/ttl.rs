//! How long something is to last.

use std::{fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// How long something is to last: days, hours, minutes and seconds, each with its letter, such as `90m`, `8h` or `7d12h`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Ttl(pub String);

const UNITS: [(char, u64); 4] = [('d', 86400), ('h', 3600), ('m', 60), ('s', 1)];

impl Ttl {
    /// The time that it means. `None`: the text means none, which the schema doesn't let in.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let mut units = UNITS.iter();
        let (mut seconds, mut digits) = (0_u64, String::new());
        for letter in self.0.chars() {
            if letter.is_ascii_digit() {
                digits.push(letter);
                continue;
            }
            // Each unit once, the greater first.
            let (_, unit) = units.find(|(name, _)| *name == letter)?;
            seconds = seconds.checked_add(digits.parse::<u64>().ok()?.checked_mul(*unit)?)?;
            digits.clear();
        }
        (digits.is_empty() && seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Ttl {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Ttl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 24,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^([0-9]{1,5}d)?([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$') && self.matches('[1-9]')",
                "message": "give a time above 0 such as 90m, 8h or 7d12h",
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_the_sum_of_its_units_the_greater_first() {
        for (text, seconds) in
            [("90m", 5400), ("8h", 28800), ("7d12h", 648_000), ("1h30m15s", 5415), ("99999d", 8_639_913_600)]
        {
            assert_eq!(Ttl(text.to_owned()).duration(), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "8", "h", "0s", "1m1h", "1h1h", "-1h", "1.5h", "1w", "99999999999999999999d"] {
            assert_eq!(Ttl(text.to_owned()).duration(), None, "{text}");
        }
    }
}
