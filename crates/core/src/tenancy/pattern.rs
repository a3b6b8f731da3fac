//! Patterns of inventory paths.

/// A pattern that inventory paths such as `/DC0/vm/team-a/web` fit: `*` stands for any text within a level, `**` for any number of levels,
/// also none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Level>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Level {
    /// Any number of levels.
    Any,
    /// One, with text that may have stars in it.
    One(String),
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// It doesn't begin at the root.
    #[error("a pattern begins with /")]
    Relative,
    /// Two slashes meet, or one is the last letter.
    #[error("a pattern has a name, * or ** after each /")]
    EmptyLevel,
    /// Two stars are beside something else.
    #[error("** stands alone between two /")]
    Stars,
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let levels = text.strip_prefix('/').ok_or(BadPattern::Relative)?;
        let level = |level: &str| match level {
            "" => Err(BadPattern::EmptyLevel),
            "**" => Ok(Level::Any),
            level if level.contains("**") => Err(BadPattern::Stars),
            level => Ok(Level::One(level.to_owned())),
        };
        levels.split('/').map(level).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a path fits. Names in it are escaped, as vCenter shows them, and compared letter by letter.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let names: Vec<_> = path.split('/').collect();
        let fits_one = |level: &Level, name: &&str| match level {
            Level::Any => false,
            Level::One(text) => {
                fits(text.as_bytes(), name.as_bytes(), |letter| *letter == b'*', |wanted, letter| wanted == letter)
            }
        };
        fits(&self.0, &names, |level| *level == Level::Any, fits_one)
    }
}

/// Whether items are as a pattern says, part by part, where some parts stand for any number of items. Only the last such part is ever
/// tried again, with one item more: an earlier one could take nothing that this one can't. So nobody's pattern costs more than its length
/// for each item.
fn fits<P, T>(pattern: &[P], items: &[T], is_any: impl Fn(&P) -> bool, fits_one: impl Fn(&P, &T) -> bool) -> bool {
    let (mut part, mut item) = (0, 0);
    // After the last part that stands for any number, and the first item that it has not taken.
    let mut again: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(part), items.get(item)) {
            (Some(any), _) if is_any(any) => {
                part += 1;
                again = Some((part, item));
            }
            (Some(one), Some(next)) if fits_one(one, next) => {
                part += 1;
                item += 1;
            }
            (None, None) => return true,
            (_, None) => return false,
            (_, Some(_)) => {
                let Some((after, taken)) = &mut again else { return false };
                *taken += 1;
                (part, item) = (*after, *taken);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(path)
    }

    #[test]
    fn stars_stay_within_a_level_and_two_of_them_go_through_any_number() {
        for (pattern, path, is_so) in [
            ("/DC0/vm/web", "/DC0/vm/web", true),
            ("/DC0/vm/web", "/DC0/vm/web2", false),
            ("/DC0/vm/web", "/DC0/vm/Web", false),
            ("/DC0/vm/web", "/DC0/vm/web/x", false),
            ("/DC0/vm/*", "/DC0/vm/web", true),
            ("/DC0/vm/*", "/DC0/vm/team/web", false),
            ("/DC0/vm/*", "/DC0/vm", false),
            ("/DC0/vm/web-*-v*", "/DC0/vm/web-a-v-v2", true),
            ("/DC0/vm/web-*-v*", "/DC0/vm/web-v2", false),
            ("/*/vm/*b", "/DC0/vm/web", true),
            ("/DC0/vm/**", "/DC0/vm", true),
            ("/DC0/vm/**", "/DC0/vm/a/b/c", true),
            ("/DC0/vm/**", "/DC0/vms", false),
            ("/DC0/vm/**", "/DC0", false),
            ("/**/web", "/DC0/vm/web", true),
            ("/**/web", "/web", true),
            ("/**/web", "/DC0/vm/web/other", false),
            ("/**/web", "/DC0/vm/myweb", false),
            ("/**/a/**/b", "/a/x/a/y/b", true),
            ("/**/a/**/b", "/b/a", false),
            ("/**", "/", true),
            ("/**/**", "/DC0", true),
            ("/DC0/vm/a%2fb", "/DC0/vm/a%2fb", true),
            ("/DC0/vm/a%2fb", "/DC0/vm/a/b", false),
            ("/DC0/vm/a/*", "/DC0/vm/a%2fb", false),
            ("/DC0/vm/*ü", "/DC0/vm/menü", true),
            ("/DC0", "DC0", false),
        ] {
            assert_eq!(matches(pattern, path), is_so, "{pattern} and {path}");
        }
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        for (text, why) in [
            ("", BadPattern::Relative),
            ("DC0/vm", BadPattern::Relative),
            ("/", BadPattern::EmptyLevel),
            ("/DC0//vm", BadPattern::EmptyLevel),
            ("/DC0/", BadPattern::EmptyLevel),
            ("/DC0/a**", BadPattern::Stars),
            ("/***", BadPattern::Stars),
        ] {
            assert_eq!(Pattern::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = format!("/{}b", "*a".repeat(500));
        assert!(!matches(&pattern, &format!("/{}", "a".repeat(10_000))));
        let levels = format!("{}/b", "/**/a".repeat(200));
        assert!(!matches(&levels, &"/a".repeat(2_000)));
    }

    /// The same as it is thought of, and not as it is computed.
    fn plainly(pattern: &[&str], names: &[&str]) -> bool {
        match (pattern, names) {
            ([], names) => names.is_empty(),
            (["**", rest @ ..], _) if plainly(rest, names) => true,
            (["**", ..], [_, names @ ..]) => plainly(pattern, names),
            ([level, rest @ ..], [name, names @ ..]) => text_fits(level, name) && plainly(rest, names),
            _ => false,
        }
    }

    fn text_fits(level: &str, name: &str) -> bool {
        match level.split_at_checked(1) {
            None => name.is_empty(),
            Some(("*", rest)) => (0..=name.len()).any(|at| text_fits(rest, &name[at..])),
            Some((letter, rest)) => name.strip_prefix(letter).is_some_and(|name| text_fits(rest, name)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn a_path_fits_as_it_does_when_every_way_is_tried(
            pattern in "(/([*]{2}|[*]|[*]?a?b?[ab][*]?b?)){1,6}",
            path in "(/[ab]{1,4}){1,6}",
        ) {
            let levels: Vec<_> = pattern[1..].split('/').collect();
            let names: Vec<_> = path[1..].split('/').collect();
            prop_assert_eq!(matches(&pattern, &path), plainly(&levels, &names));
        }
    }
}
