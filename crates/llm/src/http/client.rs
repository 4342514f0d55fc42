//! Builds the client: which certificates to trust, which proxies to take, what never to follow.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url, redirect};
use rustls::{ClientConfig, RootCertStore};

use crate::error::LlmError;

/// Servers and gateways drop idle connections after a minute or more; ours goes first, so that no
/// request is written to a connection that is about to close.
const KEEP_IDLE: Duration = Duration::from_secs(50);

/// A client for the server at `url`.
///
/// # Errors
/// `Config` when TLS cannot be set up on this machine.
pub(super) async fn build(url: &Url, connect: Duration) -> Result<Client, LlmError> {
    let tls = match url.scheme() {
        // Certificates are files to read; a plain connection does not wait for them.
        "https" => tokio::task::spawn_blocking(|| tls_config(trusted_roots()))
            .await
            .map_err(|error| LlmError::Config(format!("cannot load certificates: {error}")))?,
        _ => tls_config(RootCertStore::empty()),
    }?;
    let builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(connect)
        .pool_idle_timeout(KEEP_IDLE)
        .tcp_nodelay(true)
        .user_agent(concat!("anvil/", env!("CARGO_PKG_VERSION")))
        // The key must not follow to an address that the server picks.
        .redirect(redirect::Policy::none());
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| LlmError::Config(format!("cannot build a client: {error}")))
}

fn tls_config(roots: RootCertStore) -> Result<ClientConfig, LlmError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| LlmError::Config(format!("cannot set up TLS: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The machine's own certificates (`SSL_CERT_FILE` is honoured), so that a company's proxy works; a
/// built-in list where the machine has none, as in small containers.
fn trusted_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a certificate store could not be read");
    }
    let mut roots = RootCertStore::empty();
    let (_, unreadable) = roots.add_parsable_certificates(found.certs);
    if unreadable > 0 {
        tracing::debug!(unreadable, "some of the machine's certificates could not be parsed");
    }
    if roots.is_empty() {
        tracing::debug!("no certificates on this machine: the built-in list is used");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

/// Whether a server runs on this machine: no proxy can reach that.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_reached_without_a_proxy() {
        let own = |url: &str| is_loopback(&Url::parse(url).unwrap());
        for url in ["http://localhost:1", "http://127.0.0.3/", "http://[::1]:9", "http://0.0.0.0:1"]
        {
            assert!(own(url), "{url}");
        }
        for url in ["http://192.168.0.1", "https://localhost.example", "https://example.com"] {
            assert!(!own(url), "{url}");
        }
    }

    #[test]
    fn there_are_always_certificates_to_trust() {
        assert!(!trusted_roots().is_empty());
        assert!(tls_config(trusted_roots()).is_ok());
    }
}
