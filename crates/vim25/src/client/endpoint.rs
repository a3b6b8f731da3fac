//! Where a vCenter is, as people write it.

use std::{fmt, str::FromStr};

use http::Uri;

use super::Credentials;
use crate::Secret;

/// The address of a vCenter or an ESXi host: a bare host, `host:port`, or a URL, with or without a user.
///
/// The scheme is `https` and the path `/sdk` where the text has none. Printed, it never shows the user's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    uri: Uri,
    user: Option<(String, Secret)>,
}

/// Text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is no address of a vCenter: {reason}; write a host, host:port or https://host/sdk")]
pub struct BadEndpoint {
    /// The text, without the part that may hold a password.
    pub address: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Endpoint {
    /// The address to send calls to.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The user and password that the text had, if any.
    #[must_use]
    pub fn credentials(&self) -> Option<Credentials> {
        let (user, password) = self.user.clone()?;
        Some(Credentials::Password { user, password })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A parsed endpoint always has a host.
        f.write_str(self.uri.authority().map_or("", |authority| authority.as_str()))
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
        let (authority, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let bad = |reason| BadEndpoint { address: format!("{host}{path}"), reason };
        if let Some((_, shown)) = path.rsplit_once('@') {
            // Most likely that is the end of a password, and before it nothing is a host.
            let reason = "a /, ? or # in a user or password is written as %2F, %3F or %23";
            return Err(BadEndpoint { address: shown.to_owned(), reason });
        }
        if scheme != "https" && scheme != "http" {
            return Err(bad("the scheme is not https"));
        }
        let path = match path.split(['?', '#']).next() {
            None | Some("" | "/") => "/sdk",
            Some(path) => path,
        };
        let host = bracketed(host).map_err(bad)?;
        let uri =
            format!("{scheme}://{host}{path}").parse().map_err(|_| bad("it has characters that a host can't have"))?;
        let user = user.map(|user| user.split_once(':').unwrap_or((user, "")));
        Ok(Self { uri, user: user.map(|(name, password)| (unescaped(name), Secret::new(unescaped(password)))) })
    }
}

/// The host with its port, an IPv6 address in brackets.
fn bracketed(host: &str) -> Result<String, &'static str> {
    let (name, port) = match host.rfind(']') {
        Some(end) => (&host[..=end], host[end + 1..].strip_prefix(':')),
        None if host.matches(':').count() > 1 => return Ok(format!("[{host}]")),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() || name == "[]" {
        return Err("it has no host");
    }
    match port.map(str::parse::<u16>) {
        None => Ok(name.to_owned()),
        Some(Ok(port)) if port > 0 => Ok(format!("{name}:{port}")),
        Some(_) => Err("the port is no number from 1 to 65535"),
    }
}

/// Text with its `%40` and the like put back.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> String {
        text.parse::<Endpoint>().unwrap().uri().to_string()
    }

    #[test]
    fn hosts_ports_and_urls_are_taken_as_people_write_them() {
        for (text, expected) in [
            ("vc.example.com", "https://vc.example.com/sdk"),
            (" vc.example.com ", "https://vc.example.com/sdk"),
            ("vc.example.com:8443", "https://vc.example.com:8443/sdk"),
            ("192.0.2.7", "https://192.0.2.7/sdk"),
            ("https://vc.example.com", "https://vc.example.com/sdk"),
            ("https://vc.example.com/", "https://vc.example.com/sdk"),
            ("https://vc.example.com/sdk", "https://vc.example.com/sdk"),
            ("http://127.0.0.1:8989/sdk?x=1", "http://127.0.0.1:8989/sdk"),
            ("2001:db8::7", "https://[2001:db8::7]/sdk"),
            ("[2001:db8::7]:443", "https://[2001:db8::7]:443/sdk"),
            ("user:pa@ss@vc.example.com", "https://vc.example.com/sdk"),
        ] {
            assert_eq!(uri(text), expected, "{text}");
        }
    }

    #[test]
    fn a_user_in_the_address_is_taken_and_never_shown() {
        let endpoint: Endpoint =
            "https://administrator%40vsphere.local:p%40ss%2Fw%25rd@vc.example.com/sdk".parse().unwrap();
        let Some(Credentials::Password { user, password }) = endpoint.credentials() else { panic!("no user") };
        assert_eq!((user.as_str(), password.expose()), ("administrator@vsphere.local", "p@ss/w%rd"));
        assert!(!format!("{endpoint} {endpoint:?}").contains("ss/w"), "{endpoint:?}");
    }

    #[test]
    fn text_that_is_no_address_is_refused_without_showing_a_password() {
        for (text, reason) in [
            ("", "it has no host"),
            ("https://", "it has no host"),
            ("ftp://vc.example.com", "the scheme is not https"),
            ("vc.example.com:0", "the port is no number"),
            ("vc.example.com:none", "the port is no number"),
            ("vc example com", "it has characters"),
            ("u:hunter2@vc:x", "the port is no number"),
            ("u:hunter2#1@vc", "a /, ? or # in a user"),
            ("12:hunter2/34@vc", "a /, ? or # in a user"),
            ("https://u:12/hunter2@vc/sdk", "a /, ? or # in a user"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.reason.starts_with(reason), "{text}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
