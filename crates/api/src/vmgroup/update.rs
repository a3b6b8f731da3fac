//! How changes reach the machines that are there.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::bounds;

/// Rules for how changes of the spec reach existing VMs.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!((self.maxUnavailable == 0 || self.maxUnavailable == '0%') && (self.maxSurge == 0 || self.maxSurge == '0%'))",
    "message": "maxUnavailable and maxSurge can't both be 0: no update could ever begin",
}]))]
pub struct Update {
    /// Strategy for existing VMs. `InPlaceFirst` (default): CPU and memory are changed on the VM itself, while it runs where
    /// hot-add allows that, else with a power cycle; any other change replaces the VM by a new one. `Replace`: every change
    /// replaces the VM. `OnDelete`: existing VMs stay as they are; a VM that is deleted in vCenter is replaced by one with the
    /// new spec.
    pub strategy: Strategy,
    /// Maximum number of VMs that may be unavailable during an update: a number from 0 to 10000, or a percentage of replicas such
    /// as 25%. Default: 1.
    #[serde(deserialize_with = "one_if_null")]
    pub max_unavailable: Portion,
    /// Maximum number of VMs above replicas during an update: a number from 0 to 10000, or a percentage of replicas such as 25%.
    /// Default: 0.
    #[serde(deserialize_with = "none_if_null")]
    pub max_surge: Portion,
    /// Seconds that a VM has to be ready before it counts as available. Default: 0.
    #[schemars(range(min = 0, max = 86400))]
    pub min_ready_seconds: i32,
    /// Seconds without progress after which the condition `Stalled` is True. Drover continues all the same. Default: 600.
    #[schemars(range(min = 1, max = 86400))]
    pub progress_deadline_seconds: i32,
}

impl Default for Update {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            max_unavailable: Portion::Number(1),
            max_surge: Portion::Number(0),
            min_ready_seconds: 0,
            progress_deadline_seconds: 600,
        }
    }
}

// An older definition lets null in, which says no more than what is left out.
fn one_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<Portion, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(Portion::Number(1)))
}

fn none_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<Portion, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(Portion::Number(0)))
}

/// Strategy for existing VMs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Strategy {
    /// CPUs and memory on the VM itself, anything else by a new VM.
    #[default]
    InPlaceFirst,
    /// Everything by a new VM.
    Replace,
    /// Not at all, until the VM is deleted in vCenter.
    OnDelete,
}

/// A number of VMs, or a share of them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Portion {
    /// So many. Wider than what is allowed, so that what an older definition has let in can be read, and refused with a sentence.
    Number(i64),
    /// Such as `25%`.
    Share(String),
}

impl Portion {
    /// How many that is of a whole, a share rounded by `round`. `None`: the number is too great, or the text is no share, which the
    /// schema doesn't let in.
    #[must_use]
    pub fn of(&self, whole: u32, round: Round) -> Option<u32> {
        match self {
            Self::Number(number) => {
                u32::try_from(*number).ok().filter(|number| *number <= bounds::REPLICAS.unsigned_abs())
            }
            Self::Share(share) => {
                let digits = share.strip_suffix('%').filter(|digits| digits.len() <= 3)?;
                let percent: u64 =
                    digits.parse().ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
                let hundredths = u64::from(whole) * percent;
                let rounded = match round {
                    Round::Up => hundredths.div_ceil(100),
                    Round::Down => hundredths / 100,
                };
                u32::try_from(rounded).ok()
            }
        }
    }
}

/// Which way a share that is no whole number is rounded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Round {
    /// As for what may be too many.
    Up,
    /// As for what may be missing.
    Down,
}

impl fmt::Display for Portion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Share(share) => f.write_str(share),
        }
    }
}

impl JsonSchema for Portion {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Portion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "x-kubernetes-validations": [{
                "rule": "type(self) == int ? self >= 0 && self <= 10000 : self.matches('^[0-9]{1,3}%$')",
                "message": "give a number from 0 to 10000, or a share such as 25%",
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_the_way_it_is_told_to() {
        let quarter = Portion::Share("25%".to_owned());
        assert_eq!((quarter.of(10, Round::Up), quarter.of(10, Round::Down)), (Some(3), Some(2)));
        assert_eq!(Portion::Number(4).of(10, Round::Up), Some(4));
        for bad in ["25", "%", "a%", "-1%", "+1%", "1000%"] {
            assert_eq!(Portion::Share(bad.to_owned()).of(10, Round::Up), None, "{bad}");
        }
        for bad in [-1, 10_001, 3_000_000_000, i64::MAX] {
            assert_eq!(Portion::Number(bad).of(10, Round::Up), None, "{bad}");
        }
    }

    #[test]
    fn null_is_what_is_left_out() {
        let update: Update = serde_json::from_str(r#"{"maxSurge": null, "maxUnavailable": null}"#).unwrap();
        assert_eq!(update, Update::default());
    }
}
