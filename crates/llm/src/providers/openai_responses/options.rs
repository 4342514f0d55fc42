//! What differs between the servers that speak Responses.

use super::decode::DIALECT;
use crate::providers::servers;
use crate::types::WireKey;

/// What differs between servers that speak this dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponsesOptions {
    /// Asks for events without the filler that hides their length on the way. Only servers that are
    /// known to have the field are asked, since others may refuse it.
    pub without_obfuscation: bool,
    /// Puts the calls of an answer behind everything else in it: DeepSeek's surface refuses any item
    /// between two calls.
    pub calls_last: bool,
}

impl ResponsesOptions {
    /// What changes the bytes of a message; the filler is a matter of the head.
    pub(crate) fn key(self) -> WireKey {
        WireKey { dialect: DIALECT, options: u64::from(self.calls_last) }
    }

    /// What is known about the server at this address; the protocol as it is written for others.
    pub fn for_base_url(base_url: &str) -> Self {
        servers::known(SERVERS, base_url).unwrap_or(Self::COMPATIBLE)
    }

    /// A compatible server of which nothing else is known.
    pub const COMPATIBLE: Self = Self { without_obfuscation: false, calls_last: false };

    /// The original service.
    const ORIGINAL: Self = Self { without_obfuscation: true, ..Self::COMPATIBLE };
}

/// Servers whose requests differ from [`ResponsesOptions::COMPATIBLE`], by domain.
const SERVERS: &[(&str, ResponsesOptions)] = &[
    ("api.openai.com", ResponsesOptions::ORIGINAL),
    ("openai.azure.com", ResponsesOptions::ORIGINAL),
    ("api.deepseek.com", ResponsesOptions { calls_last: true, ..ResponsesOptions::COMPATIBLE }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_server_tells_what_it_accepts() {
        for (base_url, want) in [
            ("https://api.openai.com/v1", ResponsesOptions::ORIGINAL),
            ("https://me.openai.azure.com/openai/v1", ResponsesOptions::ORIGINAL),
            ("http://localhost:1234/v1", ResponsesOptions::COMPATIBLE),
        ] {
            assert_eq!(ResponsesOptions::for_base_url(base_url), want, "{base_url}");
        }
        assert!(ResponsesOptions::for_base_url("https://api.deepseek.com").calls_last);
    }
}
