//! The certificates that the API server trusts when it asks: those of all replicas, one after the other, each with a line before it that
//! says whose it is and until when it is good.

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_core::Timestamp;

/// How many there may be. Those of replicas that are gone stay until they are no longer good, or until there are too many.
const MOST: usize = 32;
const MARK: &str = "# drover ";

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The replica, by its name.
    pub owner: String,
    pub until: Timestamp,
    pem: String,
}

impl Entry {
    pub(super) fn new(owner: &str, until: Timestamp, certificate: &[u8]) -> Self {
        let text = BASE64_STANDARD.encode(certificate);
        let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned());
        let pem = [vec!["-----BEGIN CERTIFICATE-----".to_owned()], lines.collect()].concat().join("\n");
        Self { owner: owner.to_owned(), until, pem: format!("{pem}\n-----END CERTIFICATE-----\n") }
    }
}

/// Reads a bundle. What others have written in it is not taken for anything.
pub(super) fn read(text: &str) -> Vec<Entry> {
    let entry = |part: &str| {
        let (mark, pem) = part.split_once('\n')?;
        let (owner, until) = mark.trim().split_once(' ')?;
        let end = "-----END CERTIFICATE-----\n";
        let pem = &pem[..pem.find(end)? + end.len()];
        Some(Entry { owner: owner.to_owned(), until: until.parse().ok()?, pem: pem.to_owned() })
    };
    text.split(MARK).skip(1).filter_map(entry).collect()
}

pub(super) fn write(entries: &[Entry]) -> String {
    let texts: Vec<_> =
        entries.iter().map(|Entry { owner, until, pem }| format!("{MARK}{owner} {until}\n{pem}")).collect();
    texts.concat()
}

/// The bundle that there should be, if it isn't this one: with a replica's own certificates and no others of its, and without those that
/// are no longer good.
pub(super) fn renewed(bundle: &[Entry], owner: &str, own: &[Entry], now: Timestamp) -> Option<Vec<Entry>> {
    let mut wanted: Vec<_> = bundle
        .iter()
        .filter(|entry| entry.owner != owner && entry.until > now)
        .cloned()
        .chain(own.iter().cloned())
        .collect();
    let is_other = |entry: &Entry| entry.owner != owner;
    while wanted.len() > MOST {
        let oldest =
            wanted.iter().enumerate().filter(|(_, entry)| is_other(entry)).min_by_key(|(_, entry)| entry.until);
        let Some((oldest, _)) = oldest else { break };
        wanted.remove(oldest);
    }
    let sorted = |entries: &[Entry]| {
        let mut pems: Vec<_> = entries.iter().map(|entry| entry.pem.clone()).collect();
        pems.sort();
        pems
    };
    (sorted(&wanted) != sorted(bundle)).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(owner: &str, until: i64) -> Entry {
        Entry::new(owner, Timestamp::from_second(until).unwrap(), format!("{owner} {until}").repeat(20).as_bytes())
    }

    #[test]
    fn what_is_written_is_read_and_what_others_wrote_is_left_out() {
        let entries = [entry("a", 100), entry("b", 200)];
        let text = write(&entries);
        assert_eq!(read(&text), entries);
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
        assert_eq!(
            read(&format!("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n{text}# drover c\n")),
            entries
        );
        assert_eq!(read(""), []);
    }

    #[test]
    fn a_replica_puts_in_its_own_and_takes_out_what_is_over() {
        let now = Timestamp::from_second(150).unwrap();
        let (own, next, other) = (entry("own", 300), entry("own", 400), entry("other", 200));
        let renewed = |bundle: &[Entry], own: &[Entry]| renewed(bundle, "own", own, now);
        assert_eq!(renewed(&[], std::slice::from_ref(&own)), Some(vec![own.clone()]));
        assert_eq!(renewed(&[own.clone(), other.clone()], std::slice::from_ref(&own)), None, "in whatever order");
        let both = [own.clone(), next.clone()];
        assert_eq!(renewed(&[other.clone(), own.clone()], &both), Some([vec![other.clone()], both.to_vec()].concat()));
        let over = [entry("gone", 100), entry("own", 250), other.clone(), own.clone()];
        assert_eq!(
            renewed(&over, std::slice::from_ref(&own)),
            Some(vec![other, own.clone()]),
            "of an earlier run, too"
        );
        let many: Vec<_> = (0..40).map(|number| entry(&format!("r{number}"), 200 + number)).collect();
        let kept = renewed(&many, std::slice::from_ref(&own)).unwrap();
        assert!(kept.len() == MOST && kept.contains(&own) && kept.contains(&many[39]) && !kept.contains(&many[0]));
    }
}
