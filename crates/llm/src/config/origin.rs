//! To whom a key may be sent: scheme, host and port of an address.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

/// The server behind an address. Two addresses with the same origin are the same recipient.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Origin(String);

impl Origin {
    /// The origin of `address`, after the normalisation that browsers do: case, default ports,
    /// international names, numeric forms of IP addresses.
    ///
    /// # Errors
    /// Why the address is none that requests could be posted to; what may be secret in it is left
    /// out.
    pub fn of(address: &str) -> Result<Self, String> {
        let url = Url::parse(address.trim()).map_err(|error| {
            format!("not an address ({error}): it looks like https://host/path")
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "'{}' is neither http nor https: it looks like https://host/path",
                url.scheme()
            ));
        }
        Ok(Self(url.origin().ascii_serialization()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address as it may be shown: without a name, a password and a query, where keys are hidden.
pub fn shown(address: &str) -> String {
    let Some(mut url) = Url::parse(address.trim()).ok().filter(Url::has_host) else {
        return address.rsplit('@').next().unwrap_or_default().to_owned();
    };
    let has_secret = !url.username().is_empty() || url.password().is_some();
    if !has_secret && url.query().is_none() {
        return address.trim().to_owned();
    }
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return url.scheme().to_owned();
    }
    if url.query().is_some() {
        url.set_query(Some("..."));
    }
    url.to_string()
}

/// A key and a server it may be sent to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CredentialOrigin {
    /// The environment variable that holds the key.
    pub variable: String,
    /// The server.
    pub origin: Origin,
}

impl fmt::Display for CredentialOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.variable, self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, want: &str) {
        assert_eq!(Origin::of(address).unwrap().to_string(), want, "{address}");
    }

    #[test]
    fn case_default_ports_and_paths_make_no_other_recipient() {
        check("https://API.Anthropic.com", "https://api.anthropic.com");
        check("https://api.anthropic.com:443/v1?x=1", "https://api.anthropic.com");
        check(" http://0x7f.1:80/ ", "http://127.0.0.1");
        check("http://[0:0::1]:8080", "http://[::1]:8080");
    }

    #[test]
    fn scheme_host_and_port_do() {
        for (one, other) in [
            ("https://api.anthropic.com", "http://api.anthropic.com"),
            ("https://api.anthropic.com", "https://api.anthropic.com.evil.example"),
            ("https://api.anthropic.com", "https://api.anthropic.com@evil.example"),
            ("https://api.anthropic.com", "https://api.anthropic.com:444"),
            ("https://api.anthropic.com", "https://api.anthropic.com."),
            ("https://api.anthropic.com", "https://api.anthropıc.com"),
        ] {
            assert_ne!(Origin::of(one).unwrap(), Origin::of(other).unwrap(), "{other}");
        }
        for wrong in ["", "api.anthropic.com", "file:///etc/passwd", "ftp://h", "http://"] {
            assert!(Origin::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn passwords_and_queries_of_an_address_are_not_shown() {
        assert_eq!(shown("https://h/v1"), "https://h/v1");
        assert_eq!(shown("https://me:pw@h/v1?key=x"), "https://h/v1?...");
        for address in ["https://me:hunter2@h/v1", "https://h/v1?key=hunter2", "me:hunter2@h"] {
            assert!(!shown(address).contains("hunter2"), "{address}: {}", shown(address));
        }
    }
}
