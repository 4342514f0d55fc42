//! `anvil trust`: what a repository asks authority for, as a difference to what was granted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::Path;

use llm::config::{CredentialOrigin, Grant, Origin, Request};

use crate::app::StartError;
use crate::app::config::{Configuration, Inputs};
use crate::app::trust::TrustStore;

/// What the folder asks for; the text is for standard output.
pub(crate) fn show(configuration: &Configuration) -> Result<String, StartError> {
    let asked = Asked::of(configuration)?;
    Ok(asked.shown(&configuration.inputs) + &asked.way_forward(&configuration.inputs))
}

/// Grants it, if a person says so.
pub(crate) fn grant(
    configuration: &Configuration,
    is_sure: bool,
    named: &[(String, Origin)],
    store: &mut TrustStore,
) -> Result<String, StartError> {
    Asked::of(configuration)?.grant(&configuration.inputs, is_sure, named, store)
}

/// Takes back what was granted to a folder, in whatever state its file is.
pub(crate) fn revoke(root: &Path, store: &mut TrustStore) -> Result<String, StartError> {
    if store.grant(root).is_none() {
        return Ok(format!("{} was not trusted.\n", root.display()));
    }
    store.set(root, None).map_err(failed)?;
    Ok(format!("{} is no longer trusted.\n", root.display()))
}

fn failed(error: impl std::fmt::Display) -> StartError {
    StartError::Config(error.to_string())
}

/// What a repository's file would have if everything were granted.
struct Asked {
    /// Keys that would go to servers they do not belong to, beyond those already decided.
    new_origins: Vec<CredentialOrigin>,
    /// Those already decided that are still asked for.
    kept_origins: Vec<CredentialOrigin>,
}

impl Asked {
    fn of(configuration: &Configuration) -> Result<Self, StartError> {
        if let Some(fault) = &configuration.doubt {
            return Err(StartError::Config(format!("{fault}: there is nothing to trust yet")));
        }
        let inputs = &configuration.inputs;
        // What the folder's trust alone would leave open.
        let hypothetical = Grant { digest: inputs.request.digest(), ..Grant::default() };
        let settings = inputs.settings(Some(&hypothetical)).map_err(failed)?;
        let decided = inputs.grant.as_ref().map(|grant| grant.credential_origins.as_slice());
        let decided = decided.unwrap_or_default();
        let (kept_origins, new_origins) = (settings.layers.origins_to_approve().iter())
            .cloned()
            .partition(|pair| decided.contains(pair));
        Ok(Self { new_origins, kept_origins })
    }

    fn shown(&self, inputs: &Inputs) -> String {
        let mut text = format!("folder   {}\n", inputs.places.root.display());
        let state = match &inputs.grant {
            _ if inputs.request.is_empty() => "asks for nothing that needs trust",
            None => "not trusted",
            Some(grant) if grant.digest == inputs.request.digest() => "trusted",
            Some(_) => "changed since it was trusted: none of it applies",
        };
        line(&mut text, format_args!("state    {state}"));
        if !inputs.request.is_empty() {
            line(&mut text, format_args!("digest   {}", inputs.request.digest()));
        }
        if let Some(grant) = &inputs.grant {
            line(&mut text, format_args!("granted  {}", grant.digest));
        }
        text.push_str(&self.difference(inputs));
        text
    }

    /// The command that grants what is still open, if anything is.
    fn way_forward(&self, inputs: &Inputs) -> String {
        let is_trusted =
            inputs.grant.as_ref().is_some_and(|grant| grant.digest == inputs.request.digest());
        if inputs.request.is_empty() || (is_trusted && self.new_origins.is_empty()) {
            return String::new();
        }
        let keys: String =
            self.new_origins.iter().map(|pair| format!(" {}", option(pair))).collect();
        format!("To grant what is marked with +: anvil trust grant{keys}\n")
    }

    /// What is asked for, line by line: `+` was not granted, `-` was and is gone.
    fn difference(&self, inputs: &Inputs) -> String {
        let nothing = Request::default();
        let before = entries(inputs.grant.as_ref().map_or(&nothing, |grant| &grant.request));
        let now = entries(&inputs.request);
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let mut text = String::new();
        for name in names {
            match (before.get(name), now.get(name)) {
                (Some(old), Some(new)) if old == new => {
                    line(&mut text, format_args!("  {name}{new}"))
                }
                (old, new) => {
                    for (sign, value) in [('-', old), ('+', new)] {
                        if let Some(value) = value {
                            line(&mut text, format_args!("{sign} {name}{value}"));
                        }
                    }
                }
            }
        }
        for (sign, pairs) in [(' ', &self.kept_origins), ('+', &self.new_origins)] {
            for pair in pairs {
                line(&mut text, format_args!("{sign} credential origin: {pair}"));
            }
        }
        text
    }

    fn grant(
        self,
        inputs: &Inputs,
        is_sure: bool,
        named: &[(String, Origin)],
        store: &mut TrustStore,
    ) -> Result<String, StartError> {
        if inputs.request.is_empty() {
            return Ok(format!(
                "{} asks for nothing that needs trust.\n",
                inputs.places.root.display()
            ));
        }
        let named = self.known(named)?;
        let asks = Questions::new(is_sure)?;
        crate::complain(&self.shown(inputs));
        if !asks.agreed("Trust this folder with all of that?")? {
            return Ok("Nothing was granted.\n".to_owned());
        }
        let mut text = format!("{} is trusted.\n", inputs.places.root.display());
        let mut credential_origins = self.kept_origins;
        for pair in self.new_origins {
            let is_agreed = named.contains(&pair)
                || (!is_sure && asks.agreed(&format!("Send the key in {pair}?"))?);
            line(&mut text, format_args!("{}", decision(&pair, is_agreed)));
            credential_origins.extend(is_agreed.then_some(pair));
        }
        let request = inputs.request.clone();
        let grant = Grant { digest: request.digest(), request, credential_origins };
        store.set(&inputs.places.root, Some(grant)).map_err(failed)?;
        Ok(text)
    }

    /// The pairs that were named on the command line, if each is one that is asked for.
    fn known(&self, named: &[(String, Origin)]) -> Result<Vec<CredentialOrigin>, StartError> {
        let pairs = named.iter().map(|(variable, origin)| {
            let pair = CredentialOrigin { variable: variable.clone(), origin: origin.clone() };
            if self.new_origins.contains(&pair) || self.kept_origins.contains(&pair) {
                return Ok(pair);
            }
            let asked: Vec<String> =
                self.new_origins.iter().chain(&self.kept_origins).map(option).collect();
            let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join(" ") };
            Err(StartError::Usage(format!(
                "nothing asks for the credential origin {pair}; asked for is {asked}"
            )))
        });
        pairs.collect()
    }
}

/// What became of a key and the server it would go to.
fn decision(pair: &CredentialOrigin, is_agreed: bool) -> String {
    match is_agreed {
        true => format!("The key in {} may go to {}.", pair.variable, pair.origin),
        false => format!("Not granted: credential origin {pair} ({})", option(pair)),
    }
}

/// The option that lets this key go to this server.
fn option(pair: &CredentialOrigin) -> String {
    format!("--credential-origin {}={}", pair.variable, pair.origin)
}

/// The parts of a request by the names they are shown with.
fn entries(request: &Request) -> BTreeMap<String, String> {
    let settings = request.settings.iter();
    let settings = settings.map(|(key, value)| (key.clone(), format!(" = {value}")));
    let files = request.files.iter();
    let files = files.map(|(file, digest)| (format!("file {file}"), format!(" {digest}")));
    settings.chain(files).collect()
}

/// How a person's word is had.
enum Questions {
    /// It was given with `--yes`.
    Answered,
    /// Asked on the terminal.
    Terminal,
}

impl Questions {
    fn new(is_sure: bool) -> Result<Self, StartError> {
        if is_sure {
            return Ok(Self::Answered);
        }
        match io::stdin().is_terminal() && io::stderr().is_terminal() {
            true => Ok(Self::Terminal),
            false => Err(StartError::Usage(
                "a grant needs a person: run it in a terminal, or add --yes".to_owned(),
            )),
        }
    }

    fn agreed(&self, question: &str) -> Result<bool, StartError> {
        match self {
            Self::Answered => Ok(true),
            Self::Terminal => {
                crate::complain(&format!("{question} [y/N] "));
                let mut answer = String::new();
                io::stdin().lock().read_line(&mut answer).map_err(failed)?;
                Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
            }
        }
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a string takes what is written to it");
}
