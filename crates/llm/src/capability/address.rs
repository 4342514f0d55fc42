//! Which of the known servers an address leads to; pure.

use super::presets::{PRESETS, Preset};

/// The preset of the server that `base_url` leads to, if its domain or one above is a known one.
pub(super) fn known(base_url: &str) -> Option<&'static Preset> {
    let host = host(base_url);
    let is_below = |domain: &&str| {
        host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    PRESETS.iter().find(|preset| preset.domains.iter().any(is_below))
}

fn host(base_url: &str) -> String {
    let address = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
    // A name and a password may stand before the host.
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_domain_and_not_by_how_its_name_ends() {
        for (base_url, want) in [
            ("https://API.deepseek.com/v1", Some("deepseek")),
            ("https://me.openai.azure.com:8080/v1", Some("azure")),
            ("api.deepseek.com", Some("deepseek")),
            ("https://user:pw@api.deepseek.com/v1", Some("deepseek")),
            ("https://api.deepseek.com@evil/v1", None),
            ("https://notapi.deepseek.com", None),
            ("https://api.deepseek.com.evil/v1", None),
            ("https://evil/?api.deepseek.com", None),
            ("http://localhost:11434/v1", None),
            ("nonsense", None),
        ] {
            assert_eq!(known(base_url).map(|preset| preset.name), want, "{base_url}");
        }
    }
}
