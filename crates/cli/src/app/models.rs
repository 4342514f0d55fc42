//! Which model answers: from its name, or from what the environment offers.

use std::sync::Arc;
use std::time::Duration;

use agent::agent::ModelRef;
use llm::providers::{Connection, connect, openai_chat};
use llm::{ApiKey, Dialect, LlmError, Provider, Retry, RetryPolicy, TargetFor, capability};

use super::StartError;

/// How long a local server may take to list its models when none was asked for by name.
const PROBE: Duration = Duration::from_secs(1);

/// Most tokens of one answer where the protocol demands a number, for a model known to allow as many.
const MAX_TOKENS: u32 = 32_000;

/// The same for a model of which nothing is known: as many as even the oldest ones allow.
const CAUTIOUS_MAX_TOKENS: u32 = 4_096;

/// Keys and endpoints from the user's own environment; no value is empty.
#[derive(Clone, Default)]
pub(crate) struct ProviderEnvironment {
    pub(crate) anthropic_api_key: Option<String>,
    pub(crate) anthropic_base_url: Option<String>,
    pub(crate) openai_api_key: Option<String>,
    pub(crate) openai_base_url: Option<String>,
    pub(crate) ollama_host: Option<String>,
}

/// A model ready to be asked.
pub(crate) struct Resolved {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: ModelRef,
}

/// The providers that are built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Anthropic,
    OpenAi,
    OpenAiChat,
    Ollama,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAi, Self::OpenAiChat, Self::Ollama];

    fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Ollama => "ollama",
        }
    }

    /// The model that is used when only the provider is named.
    fn default_model(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("claude-sonnet-5"),
            Self::OpenAi | Self::OpenAiChat => Some("gpt-5.5"),
            Self::Ollama => None,
        }
    }

    /// Most tokens of one answer of the model `id`; 0 where the server decides.
    fn max_tokens(self, id: &str) -> u32 {
        match self {
            Self::Anthropic if self.default_model() == Some(id) => MAX_TOKENS,
            Self::Anthropic => CAUTIOUS_MAX_TOKENS,
            Self::OpenAi | Self::OpenAiChat | Self::Ollama => 0,
        }
    }
}

/// The models that can be named.
pub(crate) struct Models {
    env: ProviderEnvironment,
}

impl Models {
    pub(crate) fn new(env: ProviderEnvironment) -> Self {
        Self { env }
    }

    /// The model called `name`, which is `PROVIDER:MODEL-ID` or `PROVIDER`; without a name the first
    /// provider whose key is set, or else the first model that a local Ollama lists.
    ///
    /// # Errors
    /// What is missing or wrong, and how to go on.
    pub(crate) async fn resolve(&self, name: Option<&str>) -> Result<Resolved, StartError> {
        let (kind, id) = match name {
            Some(name) => parse(name)?,
            None if self.env.anthropic_api_key.is_some() => (Kind::Anthropic, None),
            None if self.env.openai_api_key.is_some() => (Kind::OpenAi, None),
            None => return self.local_default().await,
        };
        match id.or(kind.default_model()) {
            Some(id) => self.build(kind, id),
            None => {
                let id = self.first_local_model().await.map_err(StartError::Config)?;
                self.build(kind, &id)
            }
        }
    }

    async fn local_default(&self) -> Result<Resolved, StartError> {
        match self.first_local_model().await {
            Ok(id) => self.build(Kind::Ollama, &id),
            // Whoever set the address meant that server, and would look for the fault anywhere else.
            Err(_) if self.env.openai_base_url.is_some() => Err(StartError::Config(
                "OPENAI_BASE_URL is set but OPENAI_API_KEY is not: set it too (to any word, for a server \
                 that wants no key)"
                    .to_owned(),
            )),
            Err(why) => Err(StartError::Config(format!(
                "no model is configured ({why}): set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start Ollama \
                 with a model, or name one with -m PROVIDER:MODEL-ID, or see `anvil demo`, which needs none"
            ))),
        }
    }

    async fn first_local_model(&self) -> Result<String, String> {
        let base = self.ollama_base();
        let listed = openai_chat::list_models(None, &base, PROBE).await;
        let shown = host_and_port(&base);
        let models = listed.map_err(|error| format!("Ollama at {shown}: {error}"))?;
        models.into_iter().next().ok_or_else(|| format!("Ollama at {shown} lists no model"))
    }

    fn build(&self, kind: Kind, id: &str) -> Result<Resolved, StartError> {
        let label = format!("{}:{id}", kind.name());
        let max_tokens = kind.max_tokens(id);
        let provider = match kind {
            Kind::Anthropic => self.anthropic()?,
            Kind::OpenAi | Kind::OpenAiChat => self.openai(kind)?,
            Kind::Ollama => self.ollama()?,
        };
        let provider = Arc::new(Retry::new(provider, RetryPolicy::default()));
        let model = ModelRef { label, id: id.to_owned(), max_tokens, ..ModelRef::default() };
        Ok(Resolved { provider, model })
    }

    fn anthropic(&self) -> Result<Arc<dyn Provider>, StartError> {
        let var = "ANTHROPIC_API_KEY";
        let key =
            key(var, &self.env.anthropic_api_key)?.ok_or_else(missing(var, Kind::Anthropic))?;
        let base = self.env.anthropic_base_url.as_deref().unwrap_or(address(Kind::Anthropic));
        let connection = Connection { key: Some(key), ..Connection::new(Dialect::Anthropic, base) };
        connect(connection).map_err(wrong("ANTHROPIC_BASE_URL"))
    }

    fn openai(&self, kind: Kind) -> Result<Arc<dyn Provider>, StartError> {
        let var = "OPENAI_API_KEY";
        let key = key(var, &self.env.openai_api_key)?;
        let base = match (&key, self.env.openai_base_url.as_deref()) {
            // A server of one's own may need no key.
            (_, Some(base)) => base,
            (Some(_), None) => address(kind),
            (None, None) => return Err(missing(var, kind)()),
        };
        let name = kind.name().to_owned();
        let connection = Connection { name, key, ..Connection::new(Dialect::OpenaiChat, base) };
        connect(connection).map_err(wrong("OPENAI_BASE_URL"))
    }

    fn ollama(&self) -> Result<Arc<dyn Provider>, StartError> {
        let (name, base) = (Kind::Ollama.name(), self.ollama_base());
        let target = TargetFor::new(Dialect::OpenaiChat, Some(name), &base);
        let connection = Connection {
            name: name.to_owned(),
            target,
            ..Connection::new(Dialect::OpenaiChat, base)
        };
        connect(connection).map_err(wrong("OLLAMA_HOST"))
    }

    fn ollama_base(&self) -> String {
        ollama_base(self.env.ollama_host.as_deref().unwrap_or("127.0.0.1"))
    }
}

/// Where the service itself answers.
fn address(kind: Kind) -> &'static str {
    let preset = capability::preset(kind.name()).expect("a built-in provider is a preset");
    preset.base_url.expect("the preset of a service has its address")
}

fn key(var: &'static str, text: &Option<String>) -> Result<Option<ApiKey>, StartError> {
    text.as_deref().map(ApiKey::new).transpose().map_err(wrong(var))
}

fn missing(var: &'static str, kind: Kind) -> impl Fn() -> StartError {
    move || StartError::Config(format!("{var} is not set (needed by provider '{}')", kind.name()))
}

/// Names the variable that holds a wrong value.
fn wrong(var: &'static str) -> impl Fn(LlmError) -> StartError {
    move |error| StartError::Config(format!("{var}: {error}"))
}

/// The provider and the model id in a name. Ids may hold colons themselves.
fn parse(name: &str) -> Result<(Kind, Option<&str>), StartError> {
    let (provider, id) = match name.split_once(':') {
        Some((provider, id)) => (provider, Some(id)),
        None => (name, None),
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == provider);
    match (kind, id) {
        (Some(kind), None) => Ok((kind, None)),
        (Some(kind), Some(id)) if !id.trim().is_empty() => Ok((kind, Some(id))),
        (Some(kind), Some(_)) => Err(StartError::Config(format!(
            "'{name}' names no model: write {}:MODEL-ID",
            kind.name()
        ))),
        (None, _) => Err(StartError::Config(format!(
            "'{name}' does not begin with a provider: write PROVIDER:MODEL-ID, where PROVIDER is one of {}",
            Kind::ALL.map(Kind::name).join(", ")
        ))),
    }
}

/// The base address for `OLLAMA_HOST`, read the way Ollama itself reads it: `[scheme://][user:password@]host[:port]`
/// with a port of 11434 where neither scheme nor port is given. An address to listen on everywhere
/// is reached on the loopback.
fn ollama_base(host: &str) -> String {
    let host = host.trim();
    let (scheme, rest, port) = match host.split_once("://") {
        None => ("http", host, ":11434"),
        Some((scheme, rest)) => (scheme, rest, ""),
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, authority) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    let (name, given) = split_port(authority);
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1".to_owned(),
        "[::]" | "::" => "[::1]".to_owned(),
        bare if bare.contains(':') && !bare.starts_with('[') => format!("[{bare}]"),
        other => other.to_owned(),
    };
    let path = path.trim_end_matches('/').trim_end_matches("/v1");
    format!("{scheme}://{user}{name}{}{path}/v1", given.unwrap_or(port))
}

/// What may be shown of an address: the rest can hold a name, a password or a key.
fn host_and_port(base: &str) -> &str {
    let rest = base.split_once("://").map_or(base, |(_, rest)| rest);
    // The last one: a password that nobody escaped may hold further ones, and slashes.
    let authority = rest.rfind('@').map_or(rest, |at| &rest[at + 1..]);
    authority.find(['/', '?', '#']).map_or(authority, |at| &authority[..at])
}

/// A host and its port with the colon. An IPv6 address without brackets has no port.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rfind(':') {
        Some(at) if authority[at..].contains(']') => (authority, None),
        Some(at) if authority[..at].contains(':') && !authority.starts_with('[') => {
            (authority, None)
        }
        Some(at) if at + 1 < authority.len() => (&authority[..at], Some(&authority[at..])),
        Some(at) => (&authority[..at], None),
        None => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(env: ProviderEnvironment) -> Models {
        Models::new(env)
    }

    async fn label(env: ProviderEnvironment, name: Option<&str>) -> Result<String, String> {
        let resolved = models(env).resolve(name).await;
        resolved.map(|model| model.model.label).map_err(|error| error.to_string())
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn ollama_hosts_are_read_the_way_ollama_reads_them() {
        for (host, base) in [
            ("127.0.0.1", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
            (":8080", "http://127.0.0.1:8080/v1"),
            ("gpu-box", "http://gpu-box:11434/v1"),
            ("gpu-box:80/", "http://gpu-box:80/v1"),
            ("https://gpu.example", "https://gpu.example/v1"),
            ("http://gpu:1234/ollama/", "http://gpu:1234/ollama/v1"),
            ("http://gpu:1234/v1", "http://gpu:1234/v1"),
            ("[::]:1", "http://[::1]:1/v1"),
            ("::1", "http://[::1]:11434/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
            ("me:secret@gpu-box", "http://me:secret@gpu-box:11434/v1"),
            ("https://me:secret@gpu:1", "https://me:secret@gpu:1/v1"),
        ] {
            assert_eq!(ollama_base(host), base, "{host}");
        }
    }

    #[tokio::test]
    async fn an_address_that_is_none_names_its_variable() {
        for wrong in ["localhost:1234", "ftp://x", "http://", "nothing"] {
            let env = ProviderEnvironment {
                openai_base_url: some(wrong),
                ..ProviderEnvironment::default()
            };
            let error = label(env, Some("openai-chat:m")).await.unwrap_err();
            assert!(error.starts_with("OPENAI_BASE_URL: "), "{wrong}: {error}");
        }
    }

    #[tokio::test]
    async fn the_first_provider_whose_key_is_set_is_the_default() {
        let both = ProviderEnvironment {
            anthropic_api_key: some("k"),
            openai_api_key: some("k"),
            ..ProviderEnvironment::default()
        };
        assert_eq!(label(both, None).await.unwrap(), "anthropic:claude-sonnet-5");
        let one =
            ProviderEnvironment { openai_api_key: some("k"), ..ProviderEnvironment::default() };
        assert_eq!(label(one.clone(), None).await.unwrap(), "openai:gpt-5.5");
        assert_eq!(label(one, Some("openai-chat")).await.unwrap(), "openai-chat:gpt-5.5");
    }

    #[tokio::test]
    async fn a_model_id_may_hold_colons() {
        let none = ProviderEnvironment::default();
        assert_eq!(label(none, Some("ollama:qwen3:8b")).await.unwrap(), "ollama:qwen3:8b");
    }

    #[tokio::test]
    async fn a_missing_key_is_named_with_its_provider() {
        let none = ProviderEnvironment::default;
        assert_eq!(
            label(none(), Some("anthropic:x")).await.unwrap_err(),
            "ANTHROPIC_API_KEY is not set (needed by provider 'anthropic')"
        );
        let own = ProviderEnvironment { openai_base_url: some("http://127.0.0.1:1/v1"), ..none() };
        assert_eq!(label(own, Some("openai-chat:m")).await.unwrap(), "openai-chat:m");
        assert!(label(none(), Some("openai:x")).await.is_err());
    }

    #[tokio::test]
    async fn a_name_that_is_none_lists_the_providers() {
        let error = label(ProviderEnvironment::default(), Some("gemini:x")).await.unwrap_err();
        assert!(error.contains("anthropic, openai, openai-chat, ollama"), "{error}");
        assert!(label(ProviderEnvironment::default(), Some("ollama:")).await.is_err());
    }

    #[tokio::test]
    async fn only_the_built_in_model_is_asked_for_long_answers() {
        let env =
            ProviderEnvironment { anthropic_api_key: some("k"), ..ProviderEnvironment::default() };
        for (name, want) in [
            ("anthropic", 32_000),
            ("anthropic:claude-sonnet-5", 32_000),
            ("anthropic:claude-3-haiku-20240307", 4_096),
            ("anthropic:of-tomorrow", 4_096),
            ("ollama:tiny", 0),
        ] {
            let resolved = models(env.clone()).resolve(Some(name)).await.unwrap();
            assert_eq!(resolved.model.max_tokens, want, "{name}");
        }
    }

    #[test]
    fn of_an_address_only_host_and_port_are_shown() {
        for (base, shown) in [
            ("http://gpu:1234/ollama/v1", "gpu:1234"),
            ("http://me:secret@gpu:1234/v1", "gpu:1234"),
            ("http://me:se@c/ret@gpu/v1", "gpu"),
            ("http://gpu?key=secret", "gpu"),
            ("http://[::1]:1/v1", "[::1]:1"),
        ] {
            assert_eq!(host_and_port(base), shown, "{base}");
        }
    }

    #[tokio::test]
    async fn a_password_in_the_address_of_a_local_server_is_not_shown() {
        for host in ["http://me:hunter2@127.0.0.1:1", "me:hunter2@127.0.0.1:1"] {
            let env =
                ProviderEnvironment { ollama_host: some(host), ..ProviderEnvironment::default() };
            let error = label(env, None).await.unwrap_err();
            assert!(error.contains("Ollama at 127.0.0.1:1: "), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("me:"), "{error}");
        }
    }

    #[tokio::test]
    async fn without_key_and_server_the_error_names_the_four_ways_to_go_on() {
        // Port 1 on the loopback refuses connections.
        let env = ProviderEnvironment {
            ollama_host: some("127.0.0.1:1"),
            ..ProviderEnvironment::default()
        };
        let error = label(env, None).await.unwrap_err();
        for way in ["_API_KEY", "Ollama", "-m PROVIDER:MODEL-ID", "anvil demo"] {
            assert!(error.contains(way), "{error}");
        }
    }
}
