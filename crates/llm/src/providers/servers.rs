//! What is known about a server by its address; pure.

/// The entry of the server that `base_url` leads to, if its domain or one above is in the table.
pub(super) fn known<T: Copy>(table: &[(&str, T)], base_url: &str) -> Option<T> {
    let address = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
    // A name and a password may stand before the host.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let is_below = |domain: &str| {
        host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    table.iter().find(|(domain, _)| is_below(domain)).map(|(_, entry)| *entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_domain_and_not_by_how_its_name_ends() {
        let table = [("api.example.com", 1), ("example.org", 2)];
        for (base_url, want) in [
            ("https://API.example.com/v1", Some(1)),
            ("https://me.example.org:8080/v1", Some(2)),
            ("api.example.com", Some(1)),
            ("https://user:pw@api.example.com/v1", Some(1)),
            ("https://api.example.com@evil/v1", None),
            ("https://notapi.example.com", None),
            ("https://api.example.com.evil/v1", None),
            ("https://evil/?api.example.com", None),
            ("nonsense", None),
        ] {
            assert_eq!(known(&table, base_url), want, "{base_url}");
        }
    }
}
